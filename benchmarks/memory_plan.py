"""How well does a dry run of a few steps predict the peak memory of the whole run?

    .venv/bin/python -m benchmarks.memory_plan [--only TEXT] [--data FOLDER] [--out FILE.jsonl]
    .venv/bin/python -m benchmarks.memory_plan --score FILE.jsonl

Every configuration is first planned from its dry run, then run to its end without rerail while its
memory is read from outside: the most that the process tree took, each page counted once, with what
the main process's own high-water mark adds between two readings. Prints every error, their median,
and how many predictions were too low by more than 5 %. What was set on which of these is in
docs/design/how-is-peak-memory-predicted.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.preflight.prediction import predict
from rerail.preflight.proc_memory import (
    DataMapping,
    ProcessMemory,
    counted_once,
    data_mappings,
    read_tree,
    tree_of,
    unmapped_shared_bytes,
)
from rerail.preflight.rehearsal import Rehearsal, Report, Still, rehearse
from rerail.records import BlackBox, ProcessRecord
from rerail.store.codec import decode, encode

PROGRAM = Path(__file__).parent / "programs" / "train_sized.py"
MEDIAN_BAR, LOW_BAR = 0.04, 0.05
ROWS = {"resnet": 320, "transformer": 128, "gru": 800}
STEPS = 24  # of the whole run, at least, in two epochs or more
_READ_SECONDS = 0.08


@dataclass(frozen=True)
class Configuration:
    name: str
    command: tuple[str, ...]


def configurations(data: Path) -> Iterator[Configuration]:
    """Conv, transformer, recurrent, two towers; both optimizers; mapped and loaded; workers."""
    grid = [
        # model, width, optimizer, batch size, workers, mapped
        ("resnet", 18, "sgd", 20, 0, False),
        ("resnet", 22, "adamw", 44, 0, False),
        ("resnet", 26, "adamw", 36, 2, False),
        ("resnet", 32, "sgd", 64, 0, True),
        ("resnet", 24, "adamw", 48, 1, True),
        ("resnet", 48, "adamw", 16, 0, False),
        ("resnet", 16, "sgd", 128, 2, True),
        ("transformer", 128, "adamw", 8, 0, False),
        ("transformer", 256, "adamw", 16, 0, False),
        ("transformer", 256, "sgd", 8, 2, False),
        ("transformer", 384, "adamw", 4, 0, True),
        ("transformer", 192, "sgd", 24, 0, True),
        ("transformer", 256, "adamw", 12, 1, True),
        ("transformer", 512, "adamw", 8, 0, False),
        ("gru", 160, "adamw", 24, 0, False),
        ("gru", 256, "sgd", 32, 0, False),
        ("gru", 128, "sgd", 64, 2, False),
        ("gru", 256, "adamw", 32, 0, True),
        ("gru", 192, "adamw", 48, 2, True),
        ("gru", 128, "adamw", 96, 0, True),
        ("gru", 384, "sgd", 16, 1, False),
        ("transformer", 160, "adamw", 20, 0, False),
        ("resnet", 30, "sgd", 28, 1, False),
        ("gru", 224, "adamw", 40, 1, True),
        ("transformer", 320, "sgd", 10, 0, True),
        ("resnet", 14, "adamw", 96, 0, True),
        ("transformer", 224, "adamw", 14, 2, False),
        ("gru", 320, "sgd", 56, 0, False),
        ("resnet", 36, "adamw", 12, 2, True),
        ("transformer", 448, "sgd", 6, 0, False),
        ("gru", 96, "adamw", 72, 2, False),
        ("resnet", 12, "sgd", 80, 0, False),
        ("transformer", 176, "adamw", 18, 0, False),
        ("resnet", 34, "adamw", 24, 0, True),
        ("transformer", 288, "sgd", 12, 1, True),
        ("gru", 288, "adamw", 44, 0, True),
        ("transformer", 208, "sgd", 26, 0, False),
        ("resnet", 20, "sgd", 48, 2, False),
        ("transformer", 240, "adamw", 16, 2, True),
        ("gru", 144, "sgd", 80, 1, False),
        ("transformer", 352, "adamw", 6, 0, False),
        ("resnet", 40, "sgd", 18, 1, True),
        ("gru", 176, "adamw", 28, 2, False),
        ("transformer", 112, "adamw", 24, 0, True),
    ]
    for model, width, optimizer, batch, workers, mapped in grid:
        words = [sys.executable, str(PROGRAM), "--model", model, "--data", f"{data}/{model}.npy"]
        words += ["--width", str(width), "--optimizer", optimizer, "--batch-size", str(batch)]
        words += ["--workers", str(workers), "--save", f"{data}/{model}.pt"]
        epochs = max(2, -(-STEPS * batch // (ROWS[model] * 7 // 8)))
        words += ["--epochs", str(epochs)]
        words += ["--mapped"] if mapped else []
        how = "mapped" if mapped else "loaded"
        name = f"{model}-{width} {optimizer} b{batch} w{workers} {how}"
        yield Configuration(name, tuple(words))
    tower = [sys.executable, "-m", "twotower", "train", "--data", f"{data}/towers"]
    tower += [
        "--device",
        "cpu",
        "--threads",
        "1",
        "--no-bar",
        "--val-rows",
        "64",
        "--checkpoint-every",
        "10",
    ]
    for batch, accum, steps in ((4, 1, 24), (8, 2, 20), (16, 1, 20), (32, 2, 16)):
        out = f"{data}/run-{batch}-{accum}-{os.getpid()}"
        words = [*tower, "--bs", str(batch), "--accum", str(accum), "--steps", str(steps)]
        yield Configuration(f"twotower b{batch} accum {accum}", (*words, "--out", out))


def prepare(data: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    np.save(data / "resnet.npy", rng.integers(0, 255, (ROWS["resnet"], 3, 32, 32), dtype=np.uint8))
    np.save(
        data / "transformer.npy", rng.integers(0, 8192, (ROWS["transformer"], 64), dtype=np.int32)
    )
    np.save(data / "gru.npy", rng.standard_normal((ROWS["gru"], 24, 128), dtype=np.float32))
    subprocess.run(
        [
            *(sys.executable, "-m", "twotower", "prepare", "--synthetic", "--rows", "600"),
            *("--length", "40", "--bank", "2000", "--out", str(data / "towers")),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def true_peak(command: tuple[str, ...], cwd: Path) -> tuple[int, int]:
    """The peak of the whole run from outside: counted once, and resident sizes added up."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)
    once = added = waiting = 0
    pids: list[int] = []
    mappings: dict[int, list[DataMapping]] = {}
    looked = mapped_at = 0.0
    while process.poll() is None:
        if time.monotonic() - looked > 0.2:
            pids, looked = tree_of(process.pid), time.monotonic()
        found = read_tree(pids)
        if time.monotonic() - mapped_at > 0.5:
            mappings = {pid: data_mappings(pid) for pid in pids}
            waiting = unmapped_shared_bytes(pids) if len(pids) > 1 else 0
            mapped_at = time.monotonic()
        if found and found[0].pid == process.pid:
            gap = max(0, _high_water(process.pid) - found[0].rss_bytes)
            once = max(once, counted_once(found, mappings)[0] + waiting + gap)
            added = max(added, sum(p.rss_bytes for p in found) + gap)
        time.sleep(_READ_SECONDS)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return once, added


def _high_water(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def run_one(configuration: Configuration, work: Path, steps: int | None) -> dict[str, Any]:
    """Plan it, run it to its end, and keep both for the score."""
    environ = dict(os.environ)
    rehearsal = rehearse(configuration.command, work, environ, steps=steps, most_seconds=300)
    once, added = true_peak(configuration.command, work)
    return {
        "name": configuration.name,
        "true": once,
        "true_added": added,
        "rehearsal": encode(rehearsal),
    }


def read_rehearsal(row: dict[str, Any]) -> Rehearsal:
    """What `run_one` kept of a dry run, as far as the prediction looks at it."""
    still = row["still"]
    mappings = {
        int(pid): [DataMapping(**mapping) for mapping in found]
        for pid, found in still["mappings"].items()
    }
    processes = [ProcessMemory(**process) for process in still["processes"]]
    return Rehearsal(
        tuple(row["command"]),
        row["ending"],
        row["seconds"],
        [Report(**report) for report in row["reports"]],
        Still(processes, mappings, still["unmapped_bytes"]),
        [decode(ProcessRecord, record) for record in row["records"]],
        [decode(BlackBox, box) for box in row["boxes"]],
        t0_seconds=row["t0_seconds"],
    )


def score(rows: Iterable[dict[str, Any]]) -> int:
    errors = []
    for row in rows:
        found = predict(read_rehearsal(row["rehearsal"]))
        error = found.peak_bytes / row["true"] - 1
        added = found.peak_rss_bytes / row["true_added"] - 1
        errors.append(error)
        print(
            f"{row['name']:34} predicted {found.peak_bytes / 2**20:6.0f} MiB"
            f"  true {row['true'] / 2**20:6.0f} MiB  {error:+6.1%}  (added up {added:+6.1%})",
            flush=True,
        )
    median = statistics.median(abs(error) for error in errors)
    low = sum(error < -LOW_BAR for error in errors)
    print(
        f"{len(errors)} configurations: median error {median:.1%}, too low by more than 5 %: {low}"
    )
    return 0 if median < MEDIAN_BAR and low == 0 else 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="configurations whose name contains this")
    parser.add_argument("--steps", type=int, help="exactly so many [default: 3, more if quick]")
    parser.add_argument("--data", type=Path, help="use and keep the data in this folder")
    parser.add_argument("--list", action="store_true", help="only name the configurations")
    parser.add_argument("--out", type=Path, help="append one JSON line per configuration")
    parser.add_argument("--score", type=Path, help="only score what --out has written")
    args = parser.parse_args()
    if args.score:
        return score(json.loads(line) for line in args.score.read_text().splitlines())
    work = args.data or Path(tempfile.mkdtemp(prefix="memory-plan-"))
    if args.list:
        print("\n".join(configuration.name for configuration in configurations(work)))
        return 0
    rows = []
    try:
        work.mkdir(exist_ok=True)
        if not (work / "towers").exists():
            prepare(work)
        for configuration in configurations(work):
            if args.only in configuration.name:
                rows.append(run_one(configuration, work, args.steps))
                print(f"{configuration.name}: measured", file=sys.stderr, flush=True)
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    finally:
        if args.data is None:
            shutil.rmtree(work, ignore_errors=True)
    return score(rows)


if __name__ == "__main__":
    sys.exit(main())
