"""Run folders in which one file is as large as it may be, and every record in it is small.

The worst that the bounds of the store allow: small records cost the most for their bytes. `pack` is
left out: it masks every text by itself, and what that costs is a matter of the masking.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from fuzz_bars import Bars
from fuzz_runner import Target
from target_run_folder import RECORDING, RUN

from rerail.store import bounds, layout

_STACK = {"thread_id": 1, "python": [{"file": "a", "line": 1, "function": "f"}]}
_STALL = {"t_seconds": 1, "silent_seconds": 1, "threshold_seconds": 1, "action": ""}
_CRASH = {
    "pid": 1,
    "start_ticks": 1,
    "thread_id": 1,
    "thread_name": None,
    "is_main_thread": True,
    "signal": "SIGSEGV",
    "code": None,
    "address": None,
    "sender_pid": None,
    "t_seconds": 1.0,
}


def _lines(run: Path, name: str, line: Callable[[int], str]) -> None:
    size = (run / name).stat().st_size if (run / name).exists() else 0
    most, _ = bounds.log_bounds(name)
    with (run / name).open("a") as file:
        number = 0
        while size < most - 200:
            text = line(number) + "\n"
            file.write(text)
            size += len(text)
            number += 1


def _items(run: Path, name: str, item: object, most: int) -> None:
    text = json.dumps(item, separators=(",", ":"))
    count = (most - 100) // (len(text) + 1)
    (run / name).write_text('{"schema":1,"items":[' + ",".join([text] * count) + "]}")


def processes(run: Path) -> None:
    _lines(run, "events.jsonl", lambda n: f'{{"t":1,"kind":"process-started","pid":{n + 2}}}')


def endings(run: Path) -> None:
    _lines(
        run,
        "events.jsonl",
        lambda n: f'{{"t":1,"kind":"process-ended","pid":{n + 2},"start":1,"signal":"SIGSEGV"}}',
    )


def missing(run: Path) -> None:
    _lines(run, "events.jsonl", lambda n: '{"t":1,"kind":"missing"}')


def signals(run: Path) -> None:
    _lines(run, "events.jsonl", lambda n: '{"t":1,"kind":"signal-forwarded","signal":"SIGTERM"}')


def vitals(run: Path) -> None:
    _lines(run, "vitals.jsonl", lambda n: f'{{"t":{n / 1e6},"tree":[{n}]}}')


def vitals_of_processes(run: Path) -> None:
    many = ",".join(f'"{n}-1":[1]' for n in range(3000))
    _lines(run, "vitals.jsonl", lambda n: f'{{"t":{n},"tree":[],"procs":{{{many}}}}}')


def machine_values(run: Path) -> None:
    many = ",".join(f'"m{n}":1' for n in range(3000))
    _lines(run, "vitals.recent.jsonl", lambda n: f'{{"t":{n},"tree":[],"machine":{{{many}}}}}')


def stalls(run: Path) -> None:
    _lines(run, "stalls.jsonl", lambda n: json.dumps({**_STALL, "stacks": {}}))


def stall_of_many(run: Path) -> None:
    stacks = {f"{n}-1": [_STACK] for n in range(50_000)}
    _lines(run, "stalls.jsonl", lambda n: json.dumps({**_STALL, "stacks": stacks}))


def crashes(run: Path) -> None:
    _items(run, "crashes.json", _CRASH, bounds.document_bytes(layout.CRASHES))


def threads(run: Path) -> None:
    crash = {**_CRASH, "threads": [_STACK] * 90_000}
    _items(run, "crashes.json", crash, bounds.document_bytes(layout.CRASHES))


def libraries(run: Path) -> None:
    for number in range(10):
        text = ",".join(f'{{"path":"/{n}"}}' for n in range(100_000))
        (run / "maps" / f"{number}-1.json").write_text(f"[{text}]"[: bounds.MAP_BYTES])


def kernel_lines(run: Path) -> None:
    lines = ["oom-kill:constraint=a,task=b,pid=1"] * 190_000
    (run / "after.json").write_text(json.dumps({"schema": 1, "kernel_lines": lines}))


def surroundings(run: Path) -> None:
    names = {f"n{n}": {"a": n} for n in range(150_000)}
    (run / "surroundings.json").write_text(json.dumps({"schema": 1, "packages": names}))


def empty_objects(run: Path) -> None:
    many = "{}," * 1_300_000
    (run / "surroundings.json").write_text(f'{{"schema":1,"warnings":[{many}{{}}]}}')


def causes(run: Path) -> None:
    cause = {"id": "native-segfault", "probability": 0.1, "title": "", "for": [], "against": []}
    text = json.dumps({"schema": 1, "outcome": {}, "causes": [cause] * 40_000})
    (run / "diagnosis.json").write_text(text)


def boxes(run: Path) -> None:
    (whole,) = (RECORDING / "agent").glob("*.box")
    octets = bytearray(whole.read_bytes())
    for at in range(1024, len(octets) - 8, 8):
        octets[at : at + 8] = struct.pack("=q", at)
    for number in range(3000):
        (run / "agent" / f"{number}-1.box").write_bytes(octets)


def newlines(run: Path) -> None:
    (run / "output.log").write_bytes(b"\n" * (64 << 20))


def errors(run: Path) -> None:
    (run / "output.log").write_bytes(b"RuntimeError: CUDA out of memory\n" * 1_000_000)


KINDS = (
    processes,
    endings,
    missing,
    signals,
    vitals,
    vitals_of_processes,
    machine_values,
    stalls,
    stall_of_many,
    crashes,
    threads,
    libraries,
    kernel_lines,
    surroundings,
    empty_objects,
    causes,
    boxes,
    newlines,
    errors,
)


def make(rng: random.Random, folder: Path) -> str:
    run = folder / "home" / "runs" / RUN
    shutil.copytree(RECORDING, run)
    (run / "diagnosis.json").unlink()
    kind = KINDS[rng.randrange(len(KINDS))]
    kind(run)
    return kind.__name__


def check(kind: str, bars: Bars) -> None:
    for command in (["explain", RUN], ["show", RUN], ["report", RUN], ["runs"]):
        bars.command(*command, "--home", "home")


TARGET = Target(make, check, cases=3)
