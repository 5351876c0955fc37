"""`rerail completion`: real shells are asked what they would offer."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from rerail.cli import main
from rerail.cli.completion import SHELLS, command


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with two runs, and the variables of a user who has rerail on PATH."""
    folder = tmp_path_factory.mktemp("shell")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    starter = bin_folder / "rerail"
    starter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rerail "$@"\n')
    starter.chmod(0o755)
    (folder / "train.log").write_text("Killed\n")
    for code in "37":
        subprocess.run(
            [str(starter), "run", "-q", "--no-explain", "--", "sh", "-c", f"exit {code}"],
            cwd=folder,
            check=False,
            timeout=180,
        )
    path = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return folder, {**os.environ, "PATH": path, "HOME": str(folder), "TERM": "dumb"}


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program} here")
    return found


def in_bash(shell: tuple[Path, dict[str, str]], typed: str) -> list[str]:
    folder, environ = shell
    words = [*shlex.split(typed), ""] if typed.endswith(" ") else shlex.split(typed)
    script = (
        'eval "$(rerail completion bash)"\n'
        f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}\n"
        "complete -p rerail >/dev/null || exit 9\ncompopt() { :; }\n_rerail_completion rerail\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_commands_options_runs_causes_and_changes(
    shell: tuple[Path, dict[str, str]],
) -> None:
    assert in_bash(shell, "rerail ru") == ["run", "runs"]
    assert "--checkpoint" in in_bash(shell, "rerail run --ch")
    keys = sorted(path.name[-4:] for path in (shell[0] / ".rerail" / "runs").iterdir())
    assert sorted(in_bash(shell, "rerail show ")) == sorted([*keys, "last"])
    assert in_bash(shell, "rerail runs --cause openmp-d") == ["openmp-duplicate-runtime"]
    assert in_bash(shell, "rerail isolate --try one-") == ["one-openmp-runtime"]
    assert "sh" in in_bash(shell, "rerail run -- sh")


def test_fish_completes(shell: tuple[Path, dict[str, str]]) -> None:
    folder, environ = shell
    script = "rerail completion fish | source; complete -C 'rerail show la'"
    done = subprocess.run(
        [needs("fish"), "--no-config", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "last\tthe newest run\n", done.stderr


def test_zsh_completes_at_its_prompt(shell: tuple[Path, dict[str, str]]) -> None:
    folder, environ = shell
    program = needs("zsh")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(program, [program, "-f", "-i"], environ)
    try:
        setup = "PS1='> '; autoload -Uz compinit; compinit -u -D; "
        setup += 'eval "$(rerail completion zsh)"; echo re""ady\n'
        os.write(terminal, setup.encode())
        _read_until(terminal, b"ready")
        os.write(terminal, b"rerail show la\t")
        _read_until(terminal, b"rerail show last")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def _read_until(terminal: int, wanted: bytes) -> None:
    seen = b""
    end = time.monotonic() + 180
    while wanted not in seen:
        assert time.monotonic() < end, seen
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 4096)


@pytest.mark.parametrize("name", SHELLS)
def test_the_script_is_one_that_the_shell_can_read(name: str) -> None:
    program = needs(name)
    script = CliRunner().invoke(command, [name]).output
    done = subprocess.run(
        [program, "-n"], input=script, capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of" in capsys.readouterr().err


def test_a_store_that_cannot_be_read_offers_nothing(
    shell: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("no folder")
    folder, environ = shell
    assert in_bash((folder, {**environ, "RERAIL_HOME": str(tmp_path)}), "rerail show zz") == []


def test_a_variable_that_was_left_set_keeps_no_command_from_running(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "run", "-q", "--", "sh", "-c", "echo ran; exit 3"],
        cwd=tmp_path,
        env={**os.environ, "_RERAIL_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.returncode, done.stdout) == (3, "ran\n"), done.stderr
