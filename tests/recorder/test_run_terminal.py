"""A person at a terminal sees and can do what they could without the recorder."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_driver import (
    DEADLINE_SECONDS,
    PROGRAMS,
    Terminal,
    is_alive,
    python,
    read_line,
    rerail_run,
    wait_until,
)

from rerail.store import RunFolder, Store

PROGRAM = [sys.executable, str(PROGRAMS / "run_in_terminal.py")]


def last_run(home: Path) -> RunFolder:
    return Store(home).resolve("last")


def test_prompt_echo_window_size_and_end_of_input(tmp_path: Path) -> None:
    with Terminal(rerail_run(tmp_path, *PROGRAM), rows=33, columns=101) as terminal:
        terminal.expect("terminals [True, True, True]\r\n")
        terminal.expect("size 33 101\r\n")
        terminal.expect("prompt: ")
        terminal.type("hello\r")
        assert terminal.expect("got 'hello'\r\n") == b"hello\r\ngot 'hello'\r\n"
        terminal.resize(20, 50)
        terminal.expect("resized 20 50\r\n")
        terminal.type(b"\x04")
        terminal.expect("end of input")
        assert terminal.wait() == 8
    assert last_run(tmp_path).info().has_terminal


def test_control_c_interrupts_and_is_recorded_as_a_person_s(tmp_path: Path) -> None:
    with Terminal(rerail_run(tmp_path, *PROGRAM)) as terminal:
        terminal.expect("prompt: ")
        terminal.type(b"\x03")
        terminal.expect("interrupted")
        assert terminal.wait() == 7
    (forwarded,) = [e for e in last_run(tmp_path).events() if e.kind == "signal-forwarded"]
    assert forwarded.data == {"signal": "SIGINT", "sender_pid": None, "sender_name": "terminal"}


def test_control_backslash_quits_with_the_signal(tmp_path: Path) -> None:
    with Terminal(rerail_run(tmp_path, "sh", "-c", "echo ready; exec cat")) as terminal:
        terminal.expect("ready")
        terminal.type(b"\x1c")
        assert terminal.wait() == -signal.SIGQUIT


@pytest.fixture
def shell() -> Iterator[Terminal]:
    with Terminal(["bash", "--norc", "--noediting", "-i"]) as terminal:
        terminal.type("PS1='READ''Y> '; unset HISTFILE\r")
        terminal.expect("READY> ")
        yield terminal


def test_stop_and_go_on_under_a_shell(shell: Terminal, tmp_path: Path) -> None:
    modes = shell.modes()
    shell.type(shlex.join(rerail_run(tmp_path, *PROGRAM)) + "\r")
    shell.expect("prompt: ")
    assert shell.modes()[3] & termios.ICANON == 0, "every key goes through"
    shell.type(b"\x1a")
    shell.expect("Stopped")
    shell.expect("READY> ")
    assert shell.modes() == modes
    shell.type("fg\r")
    wait_until(lambda: shell.modes()[3] & termios.ICANON == 0, "the terminal to be raw again")
    shell.type("again\r")
    shell.expect("got 'again'")
    shell.type(b"\x03")
    shell.expect("interrupted")
    shell.expect("READY> ")
    assert shell.modes() == modes
    shell.type("echo code $?\r")
    shell.expect("code 7")


def test_in_the_background_the_terminal_is_left_alone(shell: Terminal, tmp_path: Path) -> None:
    modes = shell.modes()
    shell.type(shlex.join(rerail_run(tmp_path, *PROGRAM)) + " &\r")
    shell.expect("prompt: ")
    shell.type("echo the shell reads; kill -0 %1 && echo is running\r")
    shell.expect("the shell reads\r\n")
    shell.expect("is running\r\n")
    shell.type("fg\r")
    shell.expect("run_in_terminal.py")
    shell.expect("\r\n")
    wait_until(lambda: shell.modes()[3] & termios.ICANON == 0, "the terminal to be raw")
    shell.type("now me\r")
    shell.expect("got 'now me'")
    shell.type(b"\x04")
    shell.expect("READY> ")
    assert shell.modes() == modes


def test_with_the_output_in_a_pipe_the_keyboard_is_not_ours(
    shell: Terminal, tmp_path: Path
) -> None:
    """… | less: the pager reads the keys; the command keeps the terminal as its input."""
    show = python("import os; print('tty', [os.isatty(n) for n in range(3)])")
    shell.type(shlex.join(rerail_run(tmp_path, *show)) + " | cat; read -r line; echo 'I '$line\r")
    shell.expect("tty [True, False, True]\r\n")
    shell.type("typed\r")
    shell.expect("I typed")


def test_output_on_a_terminal_while_input_is_a_file(shell: Terminal, tmp_path: Path) -> None:
    show = python("import os; print('tty', [os.isatty(n) for n in range(3)])")
    shell.type(shlex.join(rerail_run(tmp_path, *show)) + " < /dev/null\r")
    shell.expect("tty [False, True, True]\r\n")
    shell.type(shlex.join(rerail_run(tmp_path, *show)) + " < /dev/null 2> /dev/null\r")
    shell.expect("tty [False, True, False]\r\n")
    shell.type(shlex.join(rerail_run(tmp_path, "sh", "-c", "kill -TERM $$")) + " < /dev/null\r")
    shell.expect("Terminated")


def test_control_c_in_a_shared_terminal_reaches_the_command_once(
    shell: Terminal, tmp_path: Path
) -> None:
    count = python(
        "import signal, sys, time",
        "got = []",
        "signal.signal(signal.SIGINT, lambda *_: got.append(1))",
        "print('is', 'up', flush=True)",
        "while not got: time.sleep(0.01)",
        "time.sleep(0.5); print('got', len(got), file=sys.stderr)",
    )
    shell.type(shlex.join(rerail_run(tmp_path, *count)) + " < /dev/null | cat\r")
    shell.expect("is up")
    shell.type(b"\x03")
    shell.expect("got 1\r\n")
    shell.expect("READY> ")
    assert [event.data["sender_name"] for event in _forwarded(tmp_path)] == ["terminal"]


def _forwarded(home: Path) -> list[object]:
    return [event for event in last_run(home).events() if event.kind == "signal-forwarded"]


def test_stop_and_go_on_in_a_shared_terminal(shell: Terminal, tmp_path: Path) -> None:
    code = "import time; print('is', 'up', flush=True); time.sleep(60)"
    shell.type(shlex.join(rerail_run(tmp_path, *python(code))) + " < /dev/null\r")
    shell.expect("is up")
    root = last_run(tmp_path).info().root_pid
    assert root is not None
    shell.type(b"\x1a")
    shell.expect("Stopped")
    assert _state(root) == "T"
    shell.type("fg\r")
    wait_until(lambda: _state(root) in "SR", "the command to go on")
    shell.type(b"\x03")
    shell.expect("KeyboardInterrupt")
    shell.expect("READY> ")


def test_a_closed_terminal_hangs_up_on_the_command(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = (
        "import signal, sys, time",
        f"def hung_up(*_): open({str(note)!r}, 'a').write('HUP '); sys.exit(5)",
        "signal.signal(signal.SIGHUP, hung_up)",
        "print('is', 'up', flush=True)",
        "time.sleep(60)",
    )
    terminal = Terminal(rerail_run(tmp_path / "home", *python(*code)))
    terminal.expect("is up")
    os.close(terminal.master)
    os.waitpid(terminal.pid, 0)
    wait_until(note.exists, "the command to be told")
    folder = last_run(tmp_path / "home")
    wait_until(lambda: folder.info().outcome is not None, "the end of the record")
    outcome = folder.info().outcome
    assert outcome is not None and outcome.exit_code == 5
    assert note.read_text() == "HUP "


def test_a_killed_recorder_leaves_the_terminal_usable(shell: Terminal, tmp_path: Path) -> None:
    modes = shell.modes()
    shell.type(shlex.join(rerail_run(tmp_path, *PROGRAM)) + "\r")
    shell.expect("prompt: ")
    folder = last_run(tmp_path)
    info = folder.info()
    assert info.root_pid is not None
    os.kill(info.recorder_pid, signal.SIGKILL)
    shell.expect("READY> ")
    wait_until(lambda: shell.modes() == modes, "the terminal's own modes")
    assert is_alive(info.root_pid)
    os.kill(info.root_pid, signal.SIGINT)
    shell.expect("interrupted")
    wait_until(lambda: folder.info().outcome is not None, "the end of the record")
    assert b"interrupted" in (folder.path / "output.log").read_bytes()


def test_it_stops_with_its_job_when_asked_from_outside(tmp_path: Path) -> None:
    code = "import time\nprint('up', flush=True)\nfor n in range(600): time.sleep(0.1)"
    command = subprocess.Popen(
        rerail_run(tmp_path, *python(code)),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        bufsize=0,
        preexec_fn=os.setpgrp,  # ours may be an orphan, and the kernel stops none of those
    )
    assert read_line(command) == b"up\n"
    root = last_run(tmp_path).info().root_pid
    assert root is not None
    command.send_signal(signal.SIGTSTP)
    wait_until(lambda: _state(root) == "T", "the command to stop")
    command.send_signal(signal.SIGCONT)
    wait_until(lambda: _state(root) in "SR", "the command to go on")
    command.terminate()
    assert command.wait(DEADLINE_SECONDS) == -signal.SIGTERM


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
