"""What the crash records of the processes say.

In: a recorded run with symbolised crashes. Out: one `crash` observation per crash, and one
`mapped-file-cut` where a bus error hit a mapping that reaches past the end of its file.

The faulting library is the innermost frame that is neither the C library, the loader, the C++
runtime's throwing machinery nor rerail's own handler: a `free()` that aborts blames its caller.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from rerail.errors import RerailError
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.where import where_of
from rerail.platform.own_code import innermost_own
from rerail.platform.patterns import linear
from rerail.recorder import what_it_runs
from rerail.records import (
    Crash,
    FaultMapping,
    LoadedFile,
    NativeFrame,
    Observation,
    ProcessRecord,
    ThreadStack,
)
from rerail.store import open_regular
from rerail.wording import (
    file_name,
    process_in_words,
    sentence,
    symbol_in_words,
    thread_in_words,
)

# Libraries that a fault surfaces in but that did not cause it: they were handed something bad.
_BYSTANDERS = linear(
    r"^(libc[.-]|libpthread[.-]|ld-|ld-linux|libgcc_s|libunwind|libasan|libdl[.-]|librt[.-]|libm[.-]"
    r"|\[vdso\]|\[vsyscall\]|rerail_agent|_?rerail|librerail"
    r"|libsystem_(c|kernel|malloc|platform|pthread)|libobjc|dyld)"
)
_CXX_RUNTIME = linear(r"^(libstdc\+\+|libc\+\+)")
# The interpreter and what calls C from it: below these there is only Python.
_GLUE = linear(r"^(python[\d.]*$|libpython|libffi|_ctypes|_cffi|_swig)")
_EXITING = linear(
    r"^(exit|_exit|__run_exit_handlers|__cxa_finalize|_dl_fini|Py_Finalize(Ex)?|Py_Exit)$"
)
_TRAMPOLINES = linear(r"restore_rt|sigreturn|killpg|__sigaction")

_SENT = ("SI_USER", "SI_TKILL", "SI_QUEUE")
_NEAR_NULL_BYTES = 1 << 16
# Linux keeps a gap of 256 pages below the main stack; threads have one guard page or a few.
_STACK_GUARD_BYTES = 1 << 20
_BOUNDS_SLACK_BYTES = 256 * 1024
_NEAR_STACK_POINTER_BYTES = 1 << 16
_DEEP_FRAMES = 1000


def read_crashes(run: RecordedRun) -> list[Observation]:
    found = []
    for crash in sorted(run.crashes, key=lambda c: (c.t_seconds is None, c.t_seconds or 0.0)):
        if was_sent_by_another(crash):
            continue  # no code of this process failed: see `read_outside_signals`
        raised_t = raised_t_seconds(run, crash.pid)
        # Threads of a library still run while an exception ends the process, and C++ aborts:
        # "terminate called without an active exception". That is no crash of its own.
        if raised_t is None or (crash.t_seconds or 0.0) < raised_t:
            found.append(_crash(run, crash))
        cut = _mapped_file_cut(run, crash)
        if cut is not None:
            found.append(cut)
    return found


def was_sent_by_another(crash: Crash) -> bool:
    """Return whether another process sent the signal, as `kill -SEGV PID` does."""
    return crash.code in _SENT and crash.sender_pid is not None and crash.sender_pid != crash.pid


def raised_t_seconds(run: RecordedRun, pid: int) -> float | None:
    """Return when an exception that nothing caught began to end this process."""
    return next(
        (
            box.exception_t_seconds or 0.0
            for box in run.boxes
            if box.pid == pid and box.exception_type and not box.exception_thread
        ),
        None,
    )


def crashed_stack(crash: Crash) -> ThreadStack | None:
    return next(
        (t for t in crash.threads if t.is_crashed), crash.threads[0] if crash.threads else None
    )


def faulting_frame(crash: Crash) -> NativeFrame | None:
    """The innermost frame that can be blamed, or the innermost of all if none can."""
    stack = crashed_stack(crash)
    if stack is None:
        return None
    frames = [f for f in stack.native if f.library and not _is_trampoline(f)]
    return next((f for f in frames if not _is_bystander(f)), frames[0] if frames else None)


def calling_frame(crash: Crash) -> NativeFrame | None:
    """Who called the blamed library: the first other one below it that is not the interpreter."""
    stack, blamed = crashed_stack(crash), faulting_frame(crash)
    if stack is None or blamed is None:
        return None
    below = stack.native[next(i for i, f in enumerate(stack.native) if f is blamed) :]
    for frame in below:
        name = file_name(frame.library or "")
        if not name or frame.library == blamed.library or _is_bystander(frame):
            continue
        return None if _GLUE.match(name) else frame
    return None


def _is_trampoline(frame: NativeFrame) -> bool:
    return bool(frame.function and _TRAMPOLINES.search(frame.function))


def is_bystander_library(name: str) -> bool:
    """Whether a library of this file name is one that faults surface in and do not come from."""
    return bool(_BYSTANDERS.match(name) or _CXX_RUNTIME.match(name))


def _is_bystander(frame: NativeFrame) -> bool:
    return is_bystander_library(file_name(frame.library or ""))


def address_kind(crash: Crash) -> str | None:
    """What kind of address the fault was on; None where the signal has no address."""
    if crash.signal not in ("SIGSEGV", "SIGBUS"):
        return None
    if crash.code in _SENT:
        return None
    address = crash.address
    if crash.code == "SI_KERNEL" and not address:
        return "non-canonical"  # the processor gives no address for a general protection fault
    if address is None:
        return None
    if is_stack_overflow(crash):
        return "stack"
    if address == 0:
        return "null"
    if address < _NEAR_NULL_BYTES:
        return "near-null"
    if 1 << 47 <= address < (1 << 64) - (1 << 47):
        return "non-canonical"
    if crash.fault_mapping is not None:
        return "mapped-file"
    return "wild"


def is_stack_overflow(crash: Crash) -> bool:
    if crash.signal not in ("SIGSEGV", "SIGBUS") or not crash.address:
        return False
    address = crash.address
    pointer = crash.registers.get("rsp") or crash.registers.get("sp")
    if crash.stack_bounds is not None:
        low, high = crash.stack_bounds
        if low - _STACK_GUARD_BYTES <= address < low + 4096:
            return True
        if pointer and low - _STACK_GUARD_BYTES <= pointer < low + 4096:
            return True
    is_near_pointer = bool(pointer) and abs(address - (pointer or 0)) < _NEAR_STACK_POINTER_BYTES
    if crash.stack_bounds is not None and low <= address < high:
        # The main thread's stack begins below its arguments and environment, so its bounds are
        # off by the size of those. Where nothing is mapped there, it could not grow any further.
        is_at_the_end = address < low + _BOUNDS_SLACK_BYTES
        return is_near_pointer and is_at_the_end and crash.code == "SEGV_MAPERR"
    return is_near_pointer and (
        depth(crash) >= _DEEP_FRAMES or recursing_function(crash) is not None
    )


def depth(crash: Crash) -> int:
    stack = crashed_stack(crash)
    return crash.frame_total or (len(stack.native) if stack else 0)


def recursing_function(crash: Crash) -> str | None:
    """The function that most of a deep stack consists of."""
    stack = crashed_stack(crash)
    if stack is None or len(stack.native) < 20:
        return None
    names = Counter(f.function or f"{f.library}+{f.offset}" for f in stack.native)
    name, count = names.most_common(1)[0]
    return name if count >= 0.4 * len(stack.native) else None


def _crash(run: RecordedRun, crash: Crash) -> Observation:
    process = run.process_of(crash)
    stack = crashed_stack(crash)
    frame = faulting_frame(crash)
    top = (
        next((f for f in stack.native if f.library and not _is_trampoline(f)), None)
        if stack
        else None
    )
    library = file_name(frame.library) if frame and frame.library else None
    python_frame = stack.python[0] if stack and stack.python else None
    overflow = is_stack_overflow(crash)
    kind = address_kind(crash)
    function = frame.function if frame else None
    caller = calling_frame(crash)
    recursing = recursing_function(crash) if overflow else None
    return Observation(
        kind="crash",
        text=_crash_sentence(run, crash, library, function, kind, recursing),
        source=f"stack:{crash.pid}:{crash.thread_id}",
        data={
            "pid": crash.pid,
            "role": run.role_of(crash),
            "rank": run.rank_of(process) if process else None,
            "signal": crash.signal,
            "code": crash.code,
            "library": library,
            "library_path": frame.library if frame else None,
            "function": function,
            "caller_library": file_name(caller.library or "") if caller else None,
            "caller_function": caller.function if caller else None,
            "top_library": file_name(top.library) if top and top.library else None,
            "top_function": top.function if top else None,
            "thread_name": _thread_called(crash, process),
            "is_main_thread": crash.is_main_thread,
            "is_python_thread": bool(stack and stack.python),
            "is_stack_overflow": overflow,
            "is_at_exit": is_at_exit(crash),
            "trap": _trap_instruction(run, crash),
            "frames": depth(crash),
            "recursing_function": recursing,
            "address": crash.address,
            "address_kind": kind,
            "path": crash.fault_mapping.path if crash.fault_mapping else None,
            "message": crash.message,
            "python_function": python_frame.function if python_frame else None,
            "python_file": python_frame.file if python_frame else None,
            "python_line": python_frame.line if python_frame else None,
            "where": _where(run, crash),
            "sender_pid": crash.sender_pid,
            "t_seconds": crash.t_seconds,
        },
    )


def _thread_called(crash: Crash, process: ProcessRecord | None) -> str | None:
    """Its own name; of one that has only that of the program, what it runs."""
    name = crash.thread_name
    if crash.is_main_thread or (name and process is not None and name != process.name):
        return name
    stack = crashed_stack(crash)
    runs = what_it_runs(stack.python) if stack else None
    return runs or name


def is_at_exit(crash: Crash) -> bool:
    """Whether the program had done its work: the C library or Python was tidying up."""
    stack = crashed_stack(crash)
    if stack is None or innermost_own(stack.python):
        return False
    return any(_EXITING.match(frame.function or "") for frame in stack.native)


def _trap_instruction(run: RecordedRun, crash: Crash) -> str | None:
    """ "ud2" where a program ends itself: __builtin_trap, a sanitizer, a failed assertion.

    An instruction that the processor lacks ends in the same signal. Read from the library's file,
    on the machine of the run: of any other file it would be another instruction.
    """
    stack = crashed_stack(crash)
    top = stack.native[0] if stack and stack.native else None
    if crash.signal != "SIGILL" or top is None or not top.library or top.offset is None:
        return None
    if top.address != crash.address or not run.is_of_this_machine:
        return None
    try:
        with open_regular(Path(top.library), follows_links=True) as file:
            file.seek(top.offset)
            code = file.read(2)
    except (OSError, ValueError, RerailError):
        return None
    return "ud2" if "rip" in crash.registers and code in (b"\x0f\x0b", b"\x0f\xb9") else None


def _where(run: RecordedRun, crash: Crash) -> dict[str, Any] | None:
    """The user's own code on the crashed stack; of a thread without Python, on the main thread's.

    A thread of a native pool works for a call that a Python thread has made and waits for.
    """
    crashed = crashed_stack(crash)
    stacks = [crashed] if crashed else []
    if crashed is None or not crashed.python:
        stacks += [thread for thread in crash.threads if thread.thread_id == crash.pid]
    process = run.process_of(crash)
    for stack in stacks:
        if frame := innermost_own(stack.python):
            return where_of(frame, process, run.rank_of(process) if process else None)
    return None


_ADDRESS_WORDS = {
    "null": "at address 0x0, a null pointer",
    "near-null": "at {address}, a field of a null pointer",
    "non-canonical": "at an invalid (non-canonical) address, a general protection fault",
    "mapped-file": "at {address}, inside the mapped file {path}",
    "stack": "at {address}, at the end of the stack: a stack overflow",
    "wild": "at {address}, an address with nothing behind it",
}


def _crash_sentence(
    run: RecordedRun,
    crash: Crash,
    library: str | None,
    function: str | None,
    kind: str | None,
    recursing: str | None,
) -> str:
    process = run.process_of(crash)
    who = process_in_words(process) if process else f"a process (pid {crash.pid})"
    thread = "the main thread"
    if not crash.is_main_thread:
        called = _thread_called(crash, process) or str(crash.thread_id)
        thread = f"{thread_in_words(called)} (not the main thread)"
    text = f"{crash.signal} in {thread} of {who}"
    if function and library:
        text += f", in {symbol_in_words(function)}() of {library}"
    elif library:
        text += f", in {library}"
    caller = calling_frame(crash)
    if caller is not None:
        of = f"{symbol_in_words(caller.function)}() of " if caller.function else ""
        text += f", called from {of}{file_name(caller.library or '')}"
    if kind is not None:
        address = f"0x{crash.address:x}" if crash.address is not None else "an unknown address"
        path = file_name(crash.fault_mapping.path) if crash.fault_mapping else ""
        text += ", " + _ADDRESS_WORDS[kind].format(address=address, path=path)
    if kind == "stack":
        frames = depth(crash)
        text += f" after {frames} frames" if frames >= 100 else ""
        text += f", mostly {recursing}() calling itself" if recursing else ""
    if crash.signal == "SIGFPE":
        text += ", an integer division by zero" if crash.code in ("FPE_INTDIV", None) else ""
    if crash.message:
        text += f"; last words: {crash.message.strip().splitlines()[-1][:160]}"
    return sentence(text)


def _mapped_file_cut(run: RecordedRun, crash: Crash) -> Observation | None:
    if crash.signal != "SIGBUS":
        return None
    path, mapped_bytes, size_bytes = _cut_from_mapping(crash.fault_mapping)
    if path is None:
        path, mapped_bytes, size_bytes = _cut_from_box(run, crash)
    if path is None or size_bytes is None:
        return None
    return Observation(
        kind="mapped-file-cut",
        text=f"{file_name(path)} was memory-mapped with {mapped_bytes} bytes and is now "
        f"{size_bytes} bytes long: it was cut (truncated or rewritten, as by another process) "
        f"while the run read it ({path}).",
        source=f"stack:{crash.pid}:{crash.thread_id}",
        data={"path": path, "mapped_bytes": mapped_bytes, "size_bytes": size_bytes},
    )


_Cut = tuple[str | None, int | None, int | None]


def _cut_from_mapping(mapping: FaultMapping | None) -> _Cut:
    if mapping is None or mapping.file_size_bytes is None:
        return None, None, None
    reaches = mapping.file_offset + mapping.end - mapping.start
    # A mapping is whole pages: only a file shorter by a page or more leaves one without backing.
    if reaches - mapping.file_size_bytes < 4096:
        return None, None, None
    return mapping.path, reaches, mapping.file_size_bytes


def _cut_from_box(run: RecordedRun, crash: Crash) -> _Cut:
    """A file that the process mapped and that is shorter now; only on the machine of the run."""
    process = run.process_of(crash)
    box = run.box_of(process) if process else None
    if box is None or not run.is_of_this_machine:
        return None, None, None
    for loaded in box.files:
        size = _size_now(loaded)
        if loaded.is_mapped and size is not None and loaded.size_bytes - size >= 4096:
            return loaded.path, loaded.size_bytes, size
    return None, None, None


def _size_now(loaded: LoadedFile) -> int | None:
    try:
        return Path(loaded.path).stat().st_size
    except (OSError, ValueError):
        return None
