"""Every descendant is in the record, with its start, end, parent and role."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_driver import (
    DEADLINE_SECONDS,
    PROGRAMS,
    Finished,
    is_alive,
    python,
    read_line,
    read_rest,
    rerail_run,
    run_recorded,
    wait_until,
)

from rerail.records import ProcessRecord


def by_name(done: Finished) -> dict[str, ProcessRecord]:
    return {process.name: process for process in done.processes()}


def test_a_script_that_swallows_its_child_s_segfault(tmp_path: Path) -> None:
    dying = shlex.join(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    done = run_recorded(tmp_path, "sh", "-c", f"{dying}; exit 0", options=["--no-agent"])
    assert done.status == 0
    root, child = done.processes()
    assert (root.role, root.exit_code, root.parent_pid is not None) == ("shell", 0, True)
    assert (child.signal, child.parent_pid) == ("SIGSEGV", root.pid)
    assert child.ending_source in ("pidfd", "netlink", "zombie")
    outcome = done.folder.info().outcome
    assert outcome is not None and outcome.kind == "ok"
    assert f"({child.pid}) was killed by SIGSEGV" in outcome.summary


def test_statuses_that_a_parent_takes_for_itself(tmp_path: Path) -> None:
    """The parent reaps each child at once; the kernel still tells us."""
    script = "for code in 0 1 7 255; do sh -c \"exit $code\"; done; sh -c 'kill -9 $$'; exit 0"
    done = run_recorded(tmp_path, "sh", "-c", script, options=["--no-agent"])
    children = [process for process in done.processes() if process.role != "main"][1:]
    endings = [(process.exit_code, process.signal) for process in children]
    assert endings == [(0, None), (1, None), (7, None), (255, None), (None, "SIGKILL")]
    assert all(process.start_ticks for process in children)


def test_an_orphan_is_followed_to_its_end(tmp_path: Path) -> None:
    """Its parent dies first; it becomes a child of the recorder, which reaps it."""
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"(sh -c 'read x < {go}; exit 9' & ) ; sleep 0.3; echo > {go}; sleep 0.3"
    done = run_recorded(tmp_path / "home", "sh", "-c", script, options=["--no-agent"])
    assert done.status == 0
    (orphan,) = [process for process in done.processes() if process.exit_code == 9]
    assert orphan.ending_source == "wait"


def test_a_daemon_does_not_hold_the_run_and_is_not_hurt(tmp_path: Path) -> None:
    note = tmp_path / "note"
    daemon = (
        "import os, sys, time",
        "if os.fork(): os._exit(0)",
        "os.setsid()",
        "print('daemon is up', os.getpid(), flush=True)",
        "sys.stdin.readline()",
        "print('daemon still prints', flush=True)",
        f"open({str(note)!r}, 'w').write('done')",
    )
    command = subprocess.Popen(
        rerail_run(tmp_path / "home", *python(*daemon)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert command.stdin is not None
    words = read_line(command).split()
    assert command.wait(DEADLINE_SECONDS) == 0, "the run ends with its root"
    pid = int(words[-1])
    assert is_alive(pid)
    command.stdin.write(b"\n")
    command.stdin.close()
    assert read_rest(command) == b"daemon still prints\n", "the guardian carries it"
    wait_until(note.exists, "the daemon to finish")
    done = Finished(0, b"", b"", tmp_path / "home")
    assert {process.pid: process.role for process in done.processes()}[pid] == "daemon"
    log = done.folder.path / "output.log"
    wait_until(lambda: b"still prints" in log.read_bytes(), "the record of it")


def test_roles_of_multiprocessing_and_its_helper(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, sys.executable, str(PROGRAMS / "run_family.py"))
    assert done.status == 0, done.stderr
    roles = sorted(process.role for process in done.processes())
    assert roles == ["helper", "main", "multiprocessing", "multiprocessing"]


def test_ranks_of_a_launcher(tmp_path: Path) -> None:
    launcher = tmp_path / "torchrun"
    launcher.write_text(
        # As pip writes it where the path has a space or is long, which the kernel cannot take.
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n"
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.3)'],\n"
        "         env={**os.environ, 'RANK': str(n)}) for n in range(2)]\n"
        "sys.exit(sum(rank.wait() for rank in ranks))\n"
    )
    launcher.chmod(0o755)
    done = run_recorded(tmp_path / "home", str(launcher), options=["--no-agent"])
    assert done.status == 0
    found = sorted(
        (process.role, process.rank) for process in done.processes() if process.rank is not None
    )
    assert found == [("rank", 0), ("rank", 1)]
    assert done.processes()[0].role == "launcher"


def test_exec_is_a_change_and_not_a_new_process(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, "sh", "-c", "sleep 0.3; exec sleep 0.2")
    root = done.processes()[0]
    assert (root.name, root.role, root.command) == ("sleep", "main", ["sleep", "0.2"])
    assert any(event.kind == "process-changed" for event in done.folder.events())


@pytest.mark.thorough
def test_thousands_of_short_lives_are_counted_and_the_dead_are_listed(tmp_path: Path) -> None:
    script = (
        "i=0; while [ $i -lt 6000 ]; do (exit 0); i=$((i+1)); done; sh -c 'kill -11 $$'; exit 0"
    )
    done = run_recorded(tmp_path, "sh", "-c", script, options=["--no-agent"])
    assert done.status == 0
    assert [process.signal for process in done.processes() if process.signal] == ["SIGSEGV"]
    assert len(done.processes()) < 5000
    (note,) = [event.data["text"] for event in done.events("note")]
    listed = len(done.processes())
    if not done.events("missing"):
        assert int(note.split()[0]) + listed == 6002


@pytest.mark.thorough
def test_without_the_connector_the_tree_is_found_by_scanning(
    tmp_path: Path, unshare: list[str]
) -> None:
    """In a container, or as an ordinary user, the kernel sends no news: later, but the same."""
    script = "sh -c 'sleep 2; kill -11 $$'; sleep 1; exec sleep 5"
    command = rerail_run(tmp_path, "sh", "-c", script, options=["--no-agent"])
    done = subprocess.run(
        [*unshare, "--fork", "--pid", "--mount-proc", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    if b"unshare failed" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr!r}")
    assert done.returncode == 0
    finished = Finished(0, b"", b"", tmp_path)
    (dead,) = [process for process in finished.processes() if process.signal == "SIGSEGV"]
    assert dead.ending_source in ("pidfd", "zombie") and dead.role == "shell"
    assert (finished.processes()[0].name, finished.processes()[0].role) == ("sleep", "main")


def test_a_busy_machine_costs_little(tmp_path: Path) -> None:
    """Others' births are dropped quickly; ours are still seen."""
    busy = subprocess.Popen(["sh", "-c", "while :; do (exit 0); done"])
    try:
        done = run_recorded(tmp_path, "sh", "-c", "sleep 1; sh -c 'kill -9 $$'; sleep 0.5; exit 0")
        assert [process.signal for process in done.processes() if process.signal] == ["SIGKILL"]
    finally:
        busy.send_signal(signal.SIGKILL)
        busy.wait()


@pytest.mark.parametrize("folder", ["a space", "ResultsOfTuesday2026"])
def test_python_that_was_gone_before_anybody_looked_is_known_in_any_folder(
    tmp_path: Path, folder: str
) -> None:
    """The recorder is stopped while it lives: all there is of it is what its agent wrote."""
    python = tmp_path / folder / "python3"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    script = 'kill -STOP $PPID; RANK=1 WORLD_SIZE=2 "$0" -c "raise SystemExit(3)"; kill -CONT $PPID'
    done = run_recorded(tmp_path / "home", "sh", "-c", script, str(python))
    if len(done.processes()) == 1:
        pytest.skip("the kernel does not tell of processes here; a scan finds only who is alive")
    _, rank = done.processes()
    assert (rank.role, rank.command[0], rank.exit_code) == ("main", str(python), 3)
