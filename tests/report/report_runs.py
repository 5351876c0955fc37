"""A run folder written by the store's own writer, for the tests of the report room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rerail.records import Crash, NativeFrame, Outcome, ProcessVitals, PythonFrame, ThreadStack
from rerail.store import RunFolder, Store
from rerail.store.codec import encode

MIB = 1 << 20

DIAGNOSIS: dict[str, Any] = {
    "schema": 1,
    "outcome": {
        "kind": "signal",
        "signal": "SIGSEGV",
        "exit_code": None,
        "process": "main",
        "summary": "The main process was killed by SIGSEGV after 60 s.",
    },
    "causes": [
        {
            "id": "native-segfault",
            "probability": 0.91,
            "title": "A native library crashed",
            "for": [
                {"text": "SIGSEGV in scan() of libfast.so.", "source": "stack:100:100"},
                {"text": "step 7 loss 0.5", "source": "output:8"},
            ],
            "against": [{"text": "Memory grew.", "source": "vitals:3.0"}],
            "remedies": [
                {
                    "id": "r",
                    "title": "Update it",
                    "safety": "safe",
                    "change": ["pip install -U fast"],
                }
            ],
        },
        {"id": "heap-corruption", "probability": 0.05, "title": "The heap was corrupted"},
    ],
    "facts": {"last_step": 7, "loss": 0.5, "library": "libfast.so", "peak_rss_bytes": 400 * MIB},
    "next": {
        "text": "Run it again without the scanner.",
        "command": "rerail isolate --try '--scan 0'",
    },
}


def write_run(
    home: Path,
    *,
    command: list[str] | None = None,
    cwd: str = "/data/job",
    output: bytes = b"",
    surroundings: dict[str, Any] | None = None,
    diagnosis: dict[str, Any] | None = None,
    crash: bool = True,
    rows: int = 100,
    outcome: Outcome | None = None,
    message: str | None = None,
    ended_by: str = "SIGSEGV",
    settings: dict[str, Any] | None = None,
) -> RunFolder:
    writer = Store(home).create_run(command or ["python", "train.py"], cwd, settings or {}, False)
    writer.update_info(root_pid=100)
    writer.event(
        "process-started",
        t_seconds=0.1,
        pid=100,
        start=7,
        ppid=1,
        role="main",
        name="python",
        command=command or ["python", "train.py"],
        rank=None,
    )
    writer.output(output or b"".join(b"step %d loss 0.5\n" % i for i in range(40)), "stdout", 0.5)
    fields = list(ProcessVitals.__dataclass_fields__)
    writer.append("vitals.jsonl", {"schema": 1, "process_fields": fields})
    for i in range(rows):
        process = ProcessVitals(rss_anon_bytes=(200 + 2 * i) * MIB, threads=4, fds=10 + i)
        values = list(vars(process).values())
        writer.append(
            "vitals.jsonl",
            {
                "t": i * 0.6,
                "span": 1.0,
                "n": 1,
                "tree": values,
                "procs": {"100-7": values},
                "machine": {"total_bytes": 8192.0 * MIB, "available_bytes": 4096.0 * MIB},
                "min": {},
                "max": {},
            },
        )
    if crash:
        frames = [
            NativeFrame(1, "/lib/libc.so.6", 0x10, "memcpy"),
            NativeFrame(2, "/opt/libfast.so", 0x20, "scan"),
        ]
        stack = ThreadStack(100, "python", frames, [PythonFrame("train.py", 12, "main")], True)
        record = Crash(
            100,
            7,
            100,
            "python",
            True,
            "SIGSEGV",
            "SEGV_MAPERR",
            0x10,
            None,
            59.9,
            {"rip": 2},
            [stack],
            message=message,
        )
        writer.write_json("crashes.json", [record])
    writer.write_json("surroundings.json", surroundings or {"system": {"os": "Linux"}})
    writer.event(
        "process-ended",
        t_seconds=60.0,
        pid=100,
        start=7,
        exit_code=None,
        signal=ended_by,
        core=False,
        source="wait",
    )
    if diagnosis is None:
        diagnosis = DIAGNOSIS
    writer.write_json("diagnosis.json", encode(diagnosis))
    ended = outcome or Outcome("signal", "Killed by SIGSEGV.", signal="SIGSEGV", process="main")
    writer.finish(ended, 60.0)
    return RunFolder(writer.path)


def write_investigation(folder: RunFolder, document: dict[str, Any]) -> None:
    (folder.path / "investigation.json").write_text(json.dumps(document))
