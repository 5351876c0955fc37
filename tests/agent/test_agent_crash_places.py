"""Every fatal signal, in every kind of thread and process: recorded, and the end is the same."""

from __future__ import annotations

import platform
import signal

import pytest
from agent_runs import PROGRAMS, Runner, library_functions

IS_ARM = platform.machine() in ("aarch64", "arm64")
NO_TRAP = pytest.mark.skipif(IS_ARM, reason="on arm64 a division by zero is no fault: it gives 0")
SIGNALS = [
    (signal.SIGSEGV, "write_through_null", "SEGV_MAPERR"),
    (signal.SIGBUS, "read_past_end_of_file", "BUS_ADRERR"),
    pytest.param(signal.SIGFPE, "divide_by_zero", "FPE_INTDIV", marks=NO_TRAP),
    (signal.SIGILL, "illegal_instruction", "ILL_ILLOP" if IS_ARM else "ILL_ILLOPN"),
    (signal.SIGABRT, "abort_here", "SI_TKILL"),
    (signal.SIGTRAP, "breakpoint_trap", "TRAP_BRKPT" if IS_ARM else "SI_KERNEL"),
    (signal.SIGSYS, "forbidden_system_call", "SYS_SECCOMP"),
]
PLACES = [
    "main",
    "python-thread",
    "native-thread",
    "forked",
    "forked-in-c",
    "fork-worker",
    "spawn-worker",
    "shell-grandchild",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("number", "function", "code"), SIGNALS, ids=lambda v: str(v))
def test_signal_in_place(
    run: Runner, faults: str, number: signal.Signals, function: str, code: str, place: str
) -> None:
    ended = run([str(PROGRAMS / "agent_die.py"), faults, str(int(number)), place])

    crash = ended.crash
    assert crash.signal == number.name
    assert crash.code is not None and crash.code.startswith(code)
    assert crash.is_complete
    assert library_functions(crash, faults)[0] == function
    assert crash.registers and crash.libraries
    if place in ("main", "python-thread", "native-thread"):
        assert ended.status == -number
    elif place == "shell-grandchild":
        assert ended.stdout.split()[-1] == str(128 + number)
    elif place in ("forked", "forked-in-c"):
        assert ended.stdout.split()[-1] == str(int(number))
    else:
        assert ended.stdout.split()[-1] == str(-number)
    assert crash.is_main_thread == (place not in ("python-thread", "native-thread"))
    if place == "native-thread":
        assert crash.thread_name == "omp-worker"
    else:
        innermost = "<module>" if place == "forked-in-c" else "die_here"
        assert crash.threads[0].python[0].function == innermost


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGTRAP])
def test_end_is_that_of_the_bare_run(
    run: Runner, faults: str, number: signal.Signals, place: str
) -> None:
    arguments = [str(PROGRAMS / "agent_die.py"), faults, str(int(number)), place]
    bare, recorded = run(arguments, agent=False), run(arguments)

    assert (recorded.status, recorded.stdout, recorded.stderr) == (
        bare.status,
        bare.stdout,
        bare.stderr,
    )
    assert bare.crashes == []


def test_child_that_shares_its_parents_memory(run: Runner, faults: str) -> None:
    ended = run([str(PROGRAMS / "agent_die.py"), faults, str(int(signal.SIGSEGV)), "vforked"])

    assert ended.stdout.split()[-1] == str(int(signal.SIGSEGV))
    assert ended.status == 0
    assert ended.crash.pid != ended.box.pid
    assert ended.box.said_goodbye


def test_killed_process_leaves_a_box_without_goodbye(run: Runner) -> None:
    ended = run(["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])

    assert ended.status == -signal.SIGKILL
    assert ended.crashes == []
    assert not ended.box.said_goodbye
    assert ended.box.handler_installed


def test_signal_from_outside_names_its_sender(run: Runner) -> None:
    ended = run(["-c", "import os; os.kill(os.getpid(), 11)"])

    assert ended.status == -signal.SIGSEGV
    assert (ended.crash.code, ended.crash.sender_pid) == ("SI_USER", ended.box.pid)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["main", "native-thread", "fork-worker", "spawn-worker"])
def test_no_record_is_lost_in_many_crashes(run: Runner, faults: str, place: str) -> None:
    for number in [signal.SIGSEGV, signal.SIGABRT] * 25:
        ended = run([str(PROGRAMS / "agent_die.py"), faults, str(int(number)), place])
        assert ended.crash.signal == number.name
        assert ended.crash.is_complete and library_functions(ended.crash, faults)[1] == "fault"
