"""Nothing that the command can see, and nothing that its user can see, is changed by recording."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_driver import (
    DEADLINE_SECONDS,
    PROGRAMS,
    python,
    read_line,
    read_rest,
    rerail_run,
    run_recorded,
)

SHOW_SURROUNDINGS = str(PROGRAMS / "run_show_surroundings.py")


@pytest.mark.thorough
def test_bytes_of_both_streams_arrive_unchanged(tmp_path: Path) -> None:
    program = str(PROGRAMS / "run_flood.py")
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        done = run_recorded(
            tmp_path / "home", sys.executable, program, "50", stdout=out, stderr=err, cwd=tmp_path
        )
    assert done.status == 0
    for stream in ("out", "err"):
        digest = hashlib.sha256((tmp_path / stream).read_bytes()).hexdigest()
        assert digest == (tmp_path / f"{stream}.sha256").read_text()


def test_one_line_of_a_megabyte_without_a_newline(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, *python("import sys; sys.stdout.write('x' * 1_000_000)"))
    assert done.stdout == b"x" * 1_000_000
    assert (done.folder.path / "output.log").read_bytes() == done.stdout


def test_bytes_that_are_no_text_and_carriage_returns(tmp_path: Path) -> None:
    odd = bytes(range(256)) + b"\r 50%\r100%\n\xff\xfe\x00"
    done = run_recorded(tmp_path, *python(f"import os; os.write(1, {odd!r})"))
    assert done.stdout == odd


def test_order_is_kept_when_both_streams_are_one_file(tmp_path: Path) -> None:
    code = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)"
    done = run_recorded(tmp_path / "home", *python(code), stderr=subprocess.STDOUT)
    assert done.stdout.split() == [b"%d" % n for n in range(2000)]


def test_standard_input_passes(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    done = run_recorded(tmp_path, "sha256sum", input=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_reader_that_goes_away_gives_the_command_its_sigpipe(tmp_path: Path) -> None:
    command = subprocess.Popen(
        rerail_run(tmp_path, "yes"), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert command.stdout is not None
    assert command.stdout.read(2) == b"y\n"
    command.stdout.close()
    assert command.wait(DEADLINE_SECONDS) == -13


def test_a_command_that_never_writes_learns_that_its_reader_is_gone(tmp_path: Path) -> None:
    code = (
        "import select, sys",
        "print('up', flush=True)",
        "poll = select.poll(); poll.register(1, 0)",
        "sys.exit(9 if poll.poll(20000) else 1)",
    )
    command = subprocess.Popen(
        rerail_run(tmp_path, *python(*code)),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        bufsize=0,
    )
    assert command.stdout is not None
    assert read_line(command) == b"up\n"
    command.stdout.close()
    assert command.wait(DEADLINE_SECONDS) == 9


def test_a_slow_reader_slows_the_command_and_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import os",
        "os.write(2, b'begun')",
        "for n in range(64): os.write(1, bytes([n]) * 65536)",
        "os.write(2, b'done')",
    )
    command = subprocess.Popen(
        rerail_run(tmp_path, *python(*code)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    assert command.stdout is not None and command.stderr is not None
    assert command.stderr.read(5) == b"begun"
    first = command.stdout.read(65536)
    out, err = command.communicate(timeout=DEADLINE_SECONDS)
    assert first + out == b"".join(bytes([n]) * 65536 for n in range(64))
    assert err == b"done"


def test_the_command_finds_what_it_would_have_found(tmp_path: Path) -> None:
    """Mask, dispositions, limits, niceness, umask, descriptors; the agent is another test's."""
    inherited, other = os.pipe()
    bare = _surroundings([sys.executable, SHOW_SURROUNDINGS], inherited, tmp_path)
    recorded = _surroundings(
        rerail_run(tmp_path / "home", sys.executable, SHOW_SURROUNDINGS, options=["--no-agent"]),
        inherited,
        tmp_path,
    )
    os.close(inherited)
    os.close(other)
    for what in sorted(bare):
        assert recorded[what] == bare[what], what


def test_with_the_agent_the_environment_differs_in_the_documented_variables_alone(
    tmp_path: Path,
) -> None:
    bare = _surroundings([sys.executable, SHOW_SURROUNDINGS], 0, tmp_path)["environ"]
    recorded = _surroundings(
        rerail_run(tmp_path / "home", sys.executable, SHOW_SURROUNDINGS), 0, tmp_path
    )["environ"]
    ours = {"RERAIL_AGENT", "RERAIL_AGENT_MEMORY", "RERAIL_T0", "PYTHONPATH", "LD_PRELOAD"}
    assert set(recorded) - set(bare) <= ours
    changed = {name for name, value in bare.items() if recorded.get(name) != value}
    assert changed <= {"PYTHONPATH", "LD_PRELOAD"}


def _surroundings(command: list[str], descriptor: int, folder: Path) -> dict[str, Any]:
    # A blocked and an ignored signal, a limit, a umask: all of them to be found again.
    start = (
        "import os, signal, resource, sys;"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]);"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL);"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400)); os.umask(0o027); os.nice(3);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", start, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        pass_fds=[descriptor] if descriptor else [],
        cwd=folder,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_closed_standard_streams_stay_closed(tmp_path: Path) -> None:
    code = "import os\ntry: os.fstat(0)\nexcept OSError: os.write(2, b'closed')"
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *rerail_run(tmp_path, *python(code))],
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.stderr == b"closed"


def test_a_pipe_that_the_command_closes_is_not_kept_open_by_us(tmp_path: Path) -> None:
    """A parent that waits for a readiness descriptor to close must not wait for the recorder."""
    reading, writing = os.pipe()
    code = f"import os, sys; os.close({writing}); sys.stdin.read()"
    command = subprocess.Popen(
        rerail_run(tmp_path, *python(code)), stdin=subprocess.PIPE, pass_fds=[writing]
    )
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert command.poll() is None
    command.communicate(timeout=DEADLINE_SECONDS)
    assert command.returncode == 0


def test_standard_output_that_the_command_closes_ends_for_its_reader(tmp_path: Path) -> None:
    code = "import os, sys; os.write(1, b'all'); os.close(1); sys.stdin.read()"
    command = subprocess.Popen(
        rerail_run(tmp_path, *python(code)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert read_rest(command) == b"all"
    assert command.poll() is None
    command.communicate(timeout=DEADLINE_SECONDS)
    assert command.returncode == 0


@pytest.mark.parametrize("missing", ["no-such-program", "./no/such/program"])
def test_a_program_that_is_not_there(tmp_path: Path, missing: str) -> None:
    done = run_recorded(tmp_path, missing)
    assert done.status == 127
    assert missing.encode() in done.stderr and b"Traceback" not in done.stderr


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing to run")
    done = run_recorded(tmp_path, str(path))
    assert done.status == 126
    assert b"permission denied" in done.stderr


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("echo from the shell $1\n")
    path.chmod(0o755)
    assert run_recorded(tmp_path, str(path), "7").stdout == b"from the shell 7\n"


def test_json_takes_standard_output_and_the_command_gets_standard_error(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, "sh", "-c", "echo from the command", options=["--json"])
    assert b"from the command" in done.stderr
    document = json.loads(done.stdout)
    assert document["outcome"]["kind"] == "ok" and document["run"] == done.folder.info().id
