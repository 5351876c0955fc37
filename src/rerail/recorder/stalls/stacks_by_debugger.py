"""Stacks that another program takes: py-spy, or pystack where py-spy is not to be had.

In: a pid and a deadline. Out: threads with native and Python frames, or None. py-spy comes from
rerail's own environment or from PATH. Promises: the program is ended at the deadline (the kernel
lets go of a traced process when its tracer dies); processes with many threads are read without
stopping them, because stopping them one by one takes seconds, at the price of native frames.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rerail.platform.patterns import linear
from rerail.records import NativeFrame, PythonFrame, ThreadStack

MOST_THREADS_TO_STOP = 64
_ADDRESS = linear(r"0x([0-9a-f]+)$")


def find_program(name: str) -> str | None:
    """In rerail's own environment first, then on PATH."""
    own = Path(sys.executable).parent / name
    return str(own) if own.is_file() else shutil.which(name)


def take(pid: int, thread_count: int, seconds: float) -> list[ThreadStack] | None:
    """The stacks of one process; None if no program could read them."""
    spy = find_program("py-spy")
    if spy is not None:
        base = [spy, "dump", "--pid", str(pid), "--json"]
        # --native excludes --nonblocking: native frames cannot be read from a moving stack.
        ways = [[*base, "--nonblocking"]]
        if thread_count <= MOST_THREADS_TO_STOP:
            ways.insert(0, [*base, "--native"])
        for way in ways:
            text = _run(way, seconds / len(ways))
            threads = parse_py_spy(text) if text is not None else None
            if threads:
                return threads
    stack = find_program("pystack")
    if stack is not None:
        text = _run([stack, "remote", "--native", str(pid)], seconds)
        threads = parse_pystack(text) if text is not None else None
        if threads:
            return threads
    return None


def take_gently(pid: int, seconds: float) -> list[ThreadStack] | None:
    """Python frames, read from the memory of a process that goes on."""
    spy = find_program("py-spy")
    text = (
        _run([spy, "dump", "--pid", str(pid), "--json", "--nonblocking"], seconds) if spy else None
    )
    return parse_py_spy(text) if text is not None else None


def take_variables(pid: int, seconds: float) -> dict[int, list[dict[str, int]]]:
    """By thread, for each Python frame: the addresses of its local variables, not their values.

    The process is not stopped: one that waits for a lock stands still by itself.
    """
    spy = find_program("py-spy")
    dump = ["dump", "--pid", str(pid), "--json", "--locals", "--nonblocking"]
    text = _run([spy, *dump], seconds) if spy else None
    try:
        document = json.loads(text or "[]")
        return {
            _number(thread.get("os_thread_id") or thread["thread_id"]): [
                {str(each["name"]): _number(each["addr"]) for each in frame.get("locals") or []}
                for frame in thread["frames"]
            ]
            for thread in document
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _run(command: list[str], seconds: float) -> str | None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(seconds, 0.1),
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def parse_py_spy(text: str) -> list[ThreadStack] | None:
    """`py-spy dump --json`; None if it is not that."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, list):
        return None
    threads = []
    for thread in document:
        if not isinstance(thread, dict):
            return None
        native: list[NativeFrame] = []
        python: list[PythonFrame] = []
        frames = thread.get("frames")
        for frame in frames if isinstance(frames, list) else []:
            if isinstance(frame, dict):
                _sort_in(frame, native, python)
        threads.append(
            ThreadStack(
                thread_id=_number(thread.get("os_thread_id") or thread.get("thread_id")),
                name=str(thread["thread_name"]) if thread.get("thread_name") else None,
                native=native,
                python=python,
            )
        )
    return threads


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _sort_in(frame: dict[str, Any], native: list[NativeFrame], python: list[PythonFrame]) -> None:
    name, file = str(frame.get("name") or "?"), str(frame.get("filename") or "")
    module = frame.get("module")
    if isinstance(module, str) and not file.endswith(".py"):
        address = _ADDRESS.match(name)
        native.append(
            NativeFrame(
                address=int(address[1], 16) if address else 0,
                library=module,
                function=None if address else name,
            )
        )
    else:
        python.append(PythonFrame(file, _number(frame.get("line")), name))


_PYSTACK_THREAD = linear(r"Traceback for thread (\d+)(?: \(([^)]*)\))?.*:$")
_PYSTACK_FRAME = linear(
    r"\s+\((?P<kind>Python|C)\) File \"(?P<file>.*?)\", line (?P<line>\d+),? in (?P<name>.*?)"
    r"(?: \((?P<library>[^()]*)\))?$"
)


def parse_pystack(text: str) -> list[ThreadStack]:
    """`pystack remote`: outermost frames first, native and Python ones mixed."""
    threads: list[ThreadStack] = []
    for line in text.splitlines():
        if head := _PYSTACK_THREAD.match(line):
            threads.append(ThreadStack(int(head[1]), head[2]))
        elif threads and (frame := _PYSTACK_FRAME.match(line)):
            if frame["kind"] == "Python":
                threads[-1].python.insert(
                    0, PythonFrame(frame["file"], int(frame["line"]), frame["name"])
                )
            else:
                threads[-1].native.insert(
                    0, NativeFrame(0, library=frame["library"], function=frame["name"])
                )
    return threads
