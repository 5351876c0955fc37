"""Crash and jetsam reports of macOS with anything in them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from fuzz_bars import Bars
from fuzz_mutations import mutate_bytes, mutate_json
from fuzz_runner import Target

from rerail.recorder.kernel import macos

_METADATA = {"app_name": "python3.11", "bug_type": "309", "os_version": "macOS 15.3"}
_CRASH = {
    "pid": 4711,
    "procName": "python3.11",
    "parentPid": 1,
    "captureTime": "2026-03-02 10:11:11",
    "exception": {"type": "EXC_CRASH", "signal": "SIGABRT"},
    "termination": {"namespace": "SIGNAL", "indicator": "Abort trap: 6", "byProc": "python3.11"},
    "asi": {"libsystem_c.dylib": ["abort() called"]},
    "faultingThread": 0,
    "threads": [{"triggered": True, "id": 99, "frames": [{"imageOffset": 8, "imageIndex": 0}]}],
    "usedImages": [{"path": "/venv/torch/lib/libomp.dylib", "name": "libomp.dylib"}],
}
_JETSAM = {
    "memoryStatus": {"pageSize": 16384},
    "largestProcess": "python3.11",
    "processes": [{"pid": 4711, "name": "python3.11", "reason": "per-process-limit", "rpages": 9}],
}
_LINES = b"""\
memorystatus: killing_specific_process pid 71 [python3.11] (per-process-limit 3 9s) 8388KB - x
memorystatus: killing_top_process pid 71 [python3.11] jetsam_reason->osr_code: 4
memorystatus: killing largest compressed process python3.11 [71] 198602 MB
low swap: killing largest compressed process with pid 71 (python3.11) and size 91234 MB
"""
_WORDS = [
    b"killing largest compressed process ",
    b"memorystatus: kill_process pid 1 [",
    b"] (a",
    b" [71] 1 MB",
    b"osr_code: ",
    b"with pid 7 (",
    b") and size 1 MB",
    b"9" * 5000,
]


def make(rng: random.Random, folder: Path) -> str:
    kind = rng.random()
    if kind < 0.3:
        return mutate_bytes(rng, _LINES, _WORDS).decode("utf-8", "replace")
    body = json.dumps(_CRASH if kind < 0.7 else _JETSAM)
    body = mutate_json(rng, body) if rng.random() < 0.9 else body
    head = mutate_json(rng, json.dumps(_METADATA)) if rng.random() < 0.2 else json.dumps(_METADATA)
    text = f"{head}\n{body}" if rng.random() < 0.9 else body
    return (
        text if rng.random() < 0.8 else mutate_bytes(rng, text.encode()).decode("utf-8", "replace")
    )


def check(text: str, bars: Bars) -> None:
    bars.call(macos.parse_ips, text, may_raise=())
    bars.call(macos.parse_jetsam, text, may_raise=())
    bars.call(macos._concerns, text, {4711, 71}, may_raise=())


TARGET = Target(make, check, cases=3000)
