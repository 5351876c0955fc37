"""A small run with every artefact in it, written the way the recorder and the agent write."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from rerail.records import (
    AfterDeath,
    Crash,
    MappedLibrary,
    MemoryLimit,
    NativeFrame,
    Outcome,
    ProcessVitals,
    PythonFrame,
    Stall,
    ThreadStack,
    VitalsRow,
)
from rerail.store import RunFolder, RunWriter


def vitals_lines(rows: list[VitalsRow]) -> str:
    names = [field.name for field in fields(ProcessVitals)]
    lines = [json.dumps({"schema": 1, "process_fields": names})]
    for row in rows:
        value = {
            "t": row.t_seconds,
            "span": row.span_seconds,
            "n": row.process_count,
            "tree": list(asdict(row.tree).values()),
            "procs": {key: list(asdict(v).values()) for key, v in row.processes.items()},
            "machine": row.machine,
            "min": row.minimum,
            "max": row.maximum,
        }
        lines.append(json.dumps(value))
    return "\n".join(lines) + "\n"


def write_whole_run(writer: RunWriter) -> RunFolder:
    """Every kind of artefact once."""
    writer.update_info(root_pid=100)
    writer.event(
        "process-started", pid=100, start=5, ppid=1, role="main", name="python",
        command=["python", "train.py"], rank=None,
    )  # fmt: skip
    writer.event("process-started", pid=101, start=6, ppid=100, role="loader-worker", name="pt",
                 command=["python"], rank=None)  # fmt: skip
    writer.output(b"epoch 1\nloss 0.5\n", "stdout", 0.5)
    writer.output(b"warning: \xff\xfe\n", "stderr", 0.7)
    writer.output(b"epoch 2", "stdout", 0.9)
    vitals = ProcessVitals(rss_anon_bytes=1 << 20, threads=3, cpu_seconds=0.25)
    row = VitalsRow(1.0, 0.0, vitals, 1, {"100-5": vitals}, {"total_bytes": 1e9})
    (writer.path / "vitals.jsonl").write_text(vitals_lines([row]))
    (writer.path / "vitals.recent.jsonl").write_text(vitals_lines([row]))
    writer.write_json("maps/100-5.json", [MappedLibrary("/lib/libgomp.so.1", "openmp", "libgomp")])
    writer.append(
        "stalls.jsonl",
        Stall(2.0, 60.0, 30.0, "report", {"100-5": [ThreadStack(100, "python")]}, "waits"),
    )
    frame = NativeFrame(4096, "/lib/libx.so", 16, "boom")
    stack = ThreadStack(100, "python", [frame], [PythonFrame("train.py", 3, "step")], True)
    writer.write_json(
        "crashes.json",
        [Crash(100, 5, 100, "python", True, "SIGSEGV", "SEGV_MAPERR", 0, None, 2.5,
               {"rip": 4096}, [stack], stack_bounds=(1, 2))],
    )  # fmt: skip
    writer.write_json("after.json", AfterDeath(memory_limits=[MemoryLimit("ram", 1 << 30)]))
    writer.write_json("surroundings.json", {"git": {"commit": "abc"}})
    writer.write_json(
        "diagnosis.json", {"outcome": {}, "causes": [{"id": "native-segfault", "probability": 0.9}]}
    )
    writer.event("process-ended", pid=101, start=6, exit_code=0, signal=None, core=False,
                 source="pidfd")  # fmt: skip
    writer.event("process-ended", pid=100, start=5, exit_code=None, signal="SIGSEGV", core=True,
                 source="wait")  # fmt: skip
    writer.finish(Outcome("signal", "main died of SIGSEGV", signal="SIGSEGV", process="main"), 3.25)
    return RunFolder(writer.path)
