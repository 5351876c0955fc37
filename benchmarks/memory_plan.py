"""How well does a dry run of a few steps predict the peak memory of the whole run?

    .venv/bin/python -m benchmarks.memory_plan [--development] [--workers] [--only X] [--out FILE]
    .venv/bin/python -m benchmarks.memory_plan --what-if
    .venv/bin/python -m benchmarks.memory_plan --score FILE.jsonl

Every configuration is first planned from its dry run, then run to its end without rerail while its
memory is read from outside. `--what-if` plans a smaller batch or fewer workers, asks for the larger
value, and runs that to its end. Prints every error, their median, and how many predictions were too
low by more than 5 %; ends with 1 if those held out from fitting miss the bar. Which these are, and
how all were drawn: memory_configurations.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory_configurations import (
    BESIDE_WORKERS,
    BESIDE_WORKERS_DEVELOPMENT,
    DEVELOPMENT,
    HELD_OUT,
    QUESTIONS,
    Configuration,
    Question,
    make_data,
)
from benchmarks.memory_truth import true_peak
from rerail.preflight.memory.plan import plan_of
from rerail.preflight.memory.prediction import predict
from rerail.preflight.memory.proc_memory import DataMapping, ProcessMemory
from rerail.preflight.memory.rehearsal import Rehearsal, Report, Still, rehearse
from rerail.preflight.memory.what_if import what_if
from rerail.records import BlackBox, ProcessRecord
from rerail.store.codec import decode, encode

MEDIAN_BAR, LOW_BAR = 0.04, 0.05
_MOST_SECONDS = 300.0


def filled_in(command: Sequence[str], data: Path) -> tuple[str, ...]:
    return tuple(word.replace("{data}", str(data)) for word in command)


def measured(configuration: Configuration, data: Path) -> dict[str, Any]:
    """The whole run, from outside."""
    shutil.rmtree(data / "run", ignore_errors=True)  # the workloads go on with nothing old
    truth = true_peak(filled_in(configuration.command, data), data)
    return {"true": truth.once_bytes, "parts": truth.parts}


def run_one(which: str, configuration: Configuration, data: Path) -> dict[str, Any]:
    """Plan it, run it to its end, and keep both for the score."""
    make_data(configuration.makes, data)
    shutil.rmtree(data / "run", ignore_errors=True)
    command = filled_in(configuration.command, data)
    rehearsal = rehearse(command, data, dict(os.environ), most_seconds=_MOST_SECONDS)
    row = {"list": which, "name": configuration.name, **measured(configuration, data)}
    return {**row, "rehearsal": encode(rehearsal)}


def ask_one(question: Question, data: Path) -> dict[str, Any]:
    """Plan the training as it is, ask for the change, and run the changed one to its end."""
    make_data(question.asked.makes, data)
    shutil.rmtree(data / "run", ignore_errors=True)
    command, environ = filled_in(question.command, data), dict(os.environ)
    plan = plan_of(rehearse(command, data, environ, most_seconds=_MOST_SECONDS), {})
    answer = what_if(question.change, command, data, environ, plan, most_seconds=_MOST_SECONDS)
    row = {"list": "what-if", "name": f"{question.asked.name}, asked for {question.change}"}
    return {**row, "answer": answer.to_json(), **measured(question.asked, data)}


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
        sampled_peak_bytes=row["sampled_peak_bytes"],
        t0_seconds=row["t0_seconds"],
    )


def score(rows: Iterable[dict[str, Any]]) -> int:
    """Each list by itself; 1 if the held-out ones miss the bar."""
    errors: dict[str, list[float]] = {}
    for row in rows:
        if "answer" in row:
            peak = int(row["answer"]["predicted_peak_bytes"])
            beside = f"(± {row['answer']['high_bytes'] / peak - 1:.0%})"
        else:
            found = predict(read_rehearsal(row["rehearsal"]))
            peak = found.peak_bytes
            beside = f"(± {found.high_bytes / peak - 1:.0%})"
        error = peak / row["true"] - 1
        errors.setdefault(row["list"], []).append(error)
        print(
            f"{row['name']:58} predicted {peak / 2**20:5.0f} MiB"
            f"  true {row['true'] / 2**20:5.0f} MiB  {error:+6.1%}  {beside}",
            flush=True,
        )
    is_met = True
    for which, found_errors in errors.items():
        median = statistics.median(abs(error) for error in found_errors)
        low = sum(error < -LOW_BAR for error in found_errors)
        if which == "held-out":
            is_met = median < MEDIAN_BAR and low == 0
        print(
            f"{which}: {len(found_errors)} configurations, median error {median:.1%},"
            f" from {min(found_errors):+.1%} to {max(found_errors):+.1%},"
            f" too low by more than 5 %: {low}"
        )
    return 0 if is_met else 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--development", action="store_true", help="the list for fitting instead")
    parser.add_argument("--workers", action="store_true", help="0 to 4, by fork and by spawn")
    parser.add_argument("--what-if", action="store_true", help="questions for another value")
    parser.add_argument("--only", default="", help="configurations whose name contains this")
    parser.add_argument("--data", type=Path, help="use and keep the data in this folder")
    parser.add_argument("--list", action="store_true", help="only name the configurations")
    parser.add_argument("--out", type=Path, help="append one JSON line per configuration")
    parser.add_argument("--score", type=Path, help="only score what --out has written")
    args = parser.parse_args()
    if args.score:
        return score(json.loads(line) for line in args.score.read_text().splitlines())
    lists = (HELD_OUT, DEVELOPMENT)
    if args.workers:
        lists = (BESIDE_WORKERS, BESIDE_WORKERS_DEVELOPMENT)
    which, configurations = ("held-out", "development")[args.development], lists[args.development]
    asked = [q for q in QUESTIONS if args.only in q.asked.name] if args.what_if else []
    chosen = [] if args.what_if else [c for c in configurations if args.only in c.name]
    if args.list:
        print("\n".join([*(c.name for c in chosen), *(q.asked.name for q in asked)]))
        return 0
    data = args.data or Path(tempfile.mkdtemp(prefix="memory-plan-"))
    rows = []
    try:
        data.mkdir(exist_ok=True)
        todo: list[Configuration | Question] = [*chosen, *asked]
        for one in todo:
            if isinstance(one, Question):
                rows.append(ask_one(one, data))
            else:
                rows.append(run_one(which, one, data))
            print(f"{rows[-1]['name']}: measured", file=sys.stderr, flush=True)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    finally:
        if args.data is None:
            shutil.rmtree(data, ignore_errors=True)
    return score(rows)


if __name__ == "__main__":
    sys.exit(main())
