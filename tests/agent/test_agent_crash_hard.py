"""Crashes that make recording hard: no stack left, no way to unwind, several at once."""

from __future__ import annotations

import signal

import pytest
from agent_runs import Runner, library_functions

LOAD = "import ctypes, os, sys, threading; lib = ctypes.CDLL({library!r})\n"


def program(library: str, text: str) -> list[str]:
    return ["-c", LOAD.format(library=library) + text]


@pytest.mark.parametrize("place", ["main", "thread"])
def test_stack_overflow(run: Runner, faults: str, place: str) -> None:
    text = "lib.recurse_for_ever(0)"
    if place == "thread":
        text = f"t = threading.Thread(target=lambda: {text}); t.start(); t.join()"
    ended = run(program(faults, text))

    crash = ended.crash
    assert ended.status == -signal.SIGSEGV
    assert crash.stack_bounds is not None and crash.address is not None
    low, high = crash.stack_bounds
    # The main stack ends at its limit, a thread's at its guard page: a little below `low`.
    assert low - (1 << 20) < crash.address < high
    stack_pointer = crash.registers.get("rsp", crash.registers.get("sp", 0))
    assert abs(crash.address - stack_pointer) < 4096
    assert crash.frame_total is not None and crash.frame_total > 5000
    assert len(crash.threads[0].native) <= 256
    functions = library_functions(crash, faults)
    assert functions.count("recurse_for_ever") > 200
    # The outermost frames are there too: how the recursion began.
    assert crash.threads[0].native[-1].library != faults
    assert crash.is_complete and crash.threads[0].python


def test_stack_overflow_in_a_native_thread_cannot_be_recorded_and_leaves_its_sign(
    run: Runner, faults: str
) -> None:
    """Without LD_PRELOAD nobody gives such a thread another stack, so no handler can run on it."""
    bare, ended = (
        run(program(faults, "lib.overflow_in_native_thread()"), agent=agent)
        for agent in (False, True)
    )

    assert ended.status == bare.status == -signal.SIGSEGV
    assert ended.crashes == []
    assert ended.box.handler_installed and not ended.box.handler_ran
    assert not ended.box.said_goodbye


def test_a_crash_that_was_recorded_is_in_the_box_too(run: Runner, faults: str) -> None:
    ended = run(program(faults, f"lib.fault({signal.SIGSEGV})"))
    assert ended.crash.signal == "SIGSEGV" and ended.box.handler_ran


def test_python_recursion_that_overflows_the_c_stack(run: Runner) -> None:
    text = """
import sys, threading
sys.setrecursionlimit(10**7)
threading.stack_size(256 * 1024)
class Deep:
    def __getattr__(self, name): return getattr(self, name + "x")
def go(): repr_of = Deep().a
t = threading.Thread(target=go); t.start(); t.join()
"""
    bare, recorded = run(["-c", text], agent=False), run(["-c", text])

    assert recorded.status == bare.status
    if bare.status == -signal.SIGSEGV:
        assert recorded.crash.frame_total is not None and recorded.crash.frame_total > 256


def test_glibc_says_why(run: Runner, faults: str) -> None:
    ended = run(program(faults, "lib.free_twice()"))

    assert ended.status == -signal.SIGABRT
    assert ended.crash.message is not None
    assert "double free" in ended.crash.message or "free()" in ended.crash.message
    assert ended.crash.message in ended.stderr
    assert "free_twice" in library_functions(ended.crash, faults)


def test_cxx_runtime_says_why(run: Runner, cxx_faults: str) -> None:
    ended = run(program(cxx_faults, "print(lib.caught_exception()); lib.uncaught_exception()"))

    assert ended.status == -signal.SIGABRT
    assert "what():  the index is empty" in ended.stderr
    assert ended.crash.message == (
        "terminate called after throwing an instance of 'St13runtime_error';"
        " what(): the index is empty"
    )


def test_thrown_object_that_is_no_exception(run: Runner, cxx_faults: str) -> None:
    ended = run(program(cxx_faults, "lib.uncaught_object()"))

    assert ended.crash.message is not None
    assert ended.crash.message.endswith("'7Unusual'")


def test_abort_after_a_handled_exception_has_no_false_message(run: Runner, cxx_faults: str) -> None:
    ended = run(program(cxx_faults, "lib.caught_exception(); os.abort()"))

    assert ended.status == -signal.SIGABRT
    assert ended.crash.message is None


def test_call_through_a_null_pointer(run: Runner, faults: str) -> None:
    ended = run(program(faults, "lib.call_nothing()"))

    assert ended.status == -signal.SIGSEGV
    assert ended.crash.threads[0].native[0].address == 0
    assert library_functions(ended.crash, faults)[0] == "call_nothing"


def test_unwinder_that_faults_does_not_loop(run: Runner, faults: str) -> None:
    bare = run(program(faults, "lib.lose_the_stack()"), agent=False)
    ended = run(program(faults, "lib.lose_the_stack()"))

    assert ended.status == bare.status == -signal.SIGSEGV
    assert ended.crash.is_complete
    assert library_functions(ended.crash, faults)[0] == "lose_the_stack"
    assert ended.crash.threads[0].python


@pytest.mark.parametrize("count", [2, 8])
def test_threads_that_crash_at_once(run: Runner, faults: str, count: int) -> None:
    ended = run(program(faults, f"lib.many_threads_crash_at_once({count})"))

    assert ended.status in (-signal.SIGSEGV, -signal.SIGILL)
    assert ended.crash.is_complete
    assert ended.crash.signal in ("SIGSEGV", "SIGILL")
    assert library_functions(ended.crash, faults)[0] in ("write_through_null", "divide_by_zero")


def test_crash_after_the_program_has_closed_every_descriptor(run: Runner, faults: str) -> None:
    """A daemon closes all of them, and its own files may then have our numbers."""
    text = """
os.closerange(3, 4096)
mine = os.open("mine.txt", os.O_RDWR | os.O_CREAT, 0o600)
for number in range(900, 1010): os.dup2(mine, number)
os.write(mine, b"mine")
lib.fault(11)
"""
    ended = run(program(faults, text))

    assert ended.status == -signal.SIGSEGV
    assert (ended.folder.parent / "mine.txt").read_text() == "mine"
    assert library_functions(ended.crash, faults)[0] == "write_through_null"
    assert ended.crash.threads[0].python


def test_other_threads_python_frames(run: Runner, faults: str) -> None:
    text = """
begun = threading.Event()
def waits_for_ever():
    begun.set()
    threading.Event().wait()
threading.Thread(target=waits_for_ever, daemon=True).start()
begun.wait()
lib.fault(11)
"""
    ended = run(program(faults, text))

    others = [frame.function for thread in ended.crash.threads[1:] for frame in thread.python]
    assert "waits_for_ever" in others
    assert ended.crash.threads[0].is_crashed


def test_stacks_asked_for_beside_a_running_thread(run: Runner) -> None:
    """Whoever answers without the interpreter's lock reads frames that change under its eyes."""
    text = """
import ctypes, threading
import rerail_native
def deep(n): return 0 if n == 0 else deep(n - 1) + len([n] * 3)
def work():
    while True:
        deep(20)
        exec("def g(x): return x\\ng(1)")
threading.Thread(target=work, daemon=True).start()
number = rerail_native.library.rerail_free_signal(0)
send = getattr(ctypes.CDLL(None), "raise")
for _ in range(4000): send(number)
print("still here")
"""
    ended = run(["-c", text])

    assert (ended.status, ended.stdout.strip()) == (0, "still here"), ended.stderr
    assert ended.crashes == [] and ended.box.said_goodbye
    assert next(ended.folder.glob("*.stacks")).stat().st_size > 0


def test_crash_at_interpreter_exit(run: Runner, faults: str) -> None:
    """Static destructors crash after Python has ended and taken its tables along."""
    arguments = program(faults, "lib.crash_at_exit()")
    bare, ended = (run(arguments, agent=agent) for agent in (False, True))

    assert ended.status == bare.status == -signal.SIGSEGV
    assert ended.crash.is_complete
    assert library_functions(ended.crash, faults)[0] == "write_through_null"
