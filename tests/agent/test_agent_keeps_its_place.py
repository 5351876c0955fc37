"""Other handlers come and go: ours stays in front, theirs still runs, the end is the same."""

from __future__ import annotations

import signal

import pytest
from agent_runs import Runner, library_functions

LOAD = "import ctypes, os, signal, faulthandler, sys; lib = ctypes.CDLL({library!r})\n"


def program(library: str, text: str) -> list[str]:
    return ["-c", LOAD.format(library=library) + text]


FAULTHANDLER = {
    "enabled by the program": "faulthandler.enable()",
    "enabled twice": "faulthandler.enable(); faulthandler.enable(all_threads=False)",
    "enabled and disabled": "faulthandler.enable(); faulthandler.disable()",
    "disabled": "faulthandler.disable()",
    "disabled and enabled": "faulthandler.disable(); faulthandler.enable()",
    "thrice": "[(faulthandler.enable(), faulthandler.disable()) for _ in range(9)]",
}


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
@pytest.mark.parametrize("environ", [{}, {"PYTHONFAULTHANDLER": "1"}], ids=["off", "on"])
@pytest.mark.parametrize("text", FAULTHANDLER.values(), ids=FAULTHANDLER)
def test_faulthandler(
    run: Runner, faults: str, text: str, environ: dict[str, str], number: signal.Signals
) -> None:
    arguments = program(faults, f"{text}; print(faulthandler.is_enabled()); lib.fault({number})")
    bare, ended = (run(arguments, agent=agent, environ=environ) for agent in (False, True))

    assert (ended.status, ended.stdout) == (bare.status, bare.stdout)
    assert _without_addresses(ended.stderr) == _without_addresses(bare.stderr)
    assert ended.crash.signal == number.name
    assert library_functions(ended.crash, faults)[1] == "fault"
    assert ended.crash.threads[0].python


def _without_addresses(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("Current", "Thread"))]


def test_python_handler_of_a_sent_signal(run: Runner) -> None:
    """The program deals with SIGABRT itself and goes on."""
    text = """
import os, signal
seen = []
print(signal.signal(signal.SIGABRT, lambda *a: seen.append(1)))
print(signal.getsignal(signal.SIGSEGV))
for _ in range(3): os.kill(os.getpid(), signal.SIGABRT)
print(len(seen), signal.signal(signal.SIGABRT, signal.SIG_DFL) is not None)
"""
    bare, ended = (run(["-c", text], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stdout, ended.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert ended.box.said_goodbye


def test_python_handler_that_leaves(run: Runner) -> None:
    text = """
import os, signal, sys
signal.signal(signal.SIGABRT, lambda *a: sys.exit(7))
os.kill(os.getpid(), signal.SIGABRT)
import time; time.sleep(5)
"""
    ended = run(["-c", text])

    assert ended.status == 7
    assert ended.crash.signal == "SIGABRT"
    assert ended.box.said_goodbye


def test_ignored_signal_stays_ignored(run: Runner) -> None:
    text = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTRAP, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGTRAP)
code = "import signal, os; print(signal.getsignal(signal.SIGTRAP)); os.kill(os.getpid(), 5)"
print(subprocess.run([sys.executable, "-c", code], restore_signals=False).returncode)
"""
    bare, ended = (run(["-c", text], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stdout) == (bare.status, bare.stdout) == (0, ended.stdout)
    assert ended.crashes == []


def test_runtime_that_lives_on_faults(run: Runner, faults: str) -> None:
    """Its handler is on top of ours and mends the fault; nothing of ours runs or is written."""
    text = "lib.install_lazy_pages(); print(lib.touch_lazy_page())"
    ended = run(program(faults, text))

    assert (ended.status, ended.stdout.strip()) == (0, "7")
    assert ended.crashes == []


def test_runtime_that_lives_on_faults_below_us(run: Runner, faults: str) -> None:
    """We got on top of it (faulthandler.enable makes us look): the fault is still mended."""
    text = """
lib.install_lazy_pages()
faulthandler.disable()
print(lib.touch_lazy_page())
"""
    ended = run(program(faults, text))

    assert (ended.status, ended.stdout.strip()) == (0, "7")
    assert ended.box.said_goodbye


def test_user_handler_below_ours_that_aborts(run: Runner, faults: str, tmp_path) -> None:
    """What happened first beats its echo: a handler of SIGSEGV that calls abort()."""
    source = tmp_path / "aborting.c"
    source.write_text(
        "#include <signal.h>\n#include <stdlib.h>\n"
        "static void die(int s) { (void)s; abort(); }\n"
        "void install(void) { signal(SIGSEGV, die); }\n"
    )
    from agent_runs import build

    library = build(tmp_path / "libaborting.so", source, "cc")
    text = f"ctypes.CDLL({library!r}).install(); faulthandler.disable(); lib.fault(11)"
    bare, ended = (run(program(faults, text), agent=agent) for agent in (False, True))

    assert ended.status == bare.status == -signal.SIGABRT
    assert ended.crash.signal == "SIGSEGV"
    assert library_functions(ended.crash, faults)[0] == "write_through_null"
