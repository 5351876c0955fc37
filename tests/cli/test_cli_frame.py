"""The frame of the command line: what a user sees when things go well, wrong or unexpectedly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import rerail
from rerail import cli
from rerail.errors import UnknownRun, UsageError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """Make `rerail runs` fail of what the test says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    monkeypatch.delenv("RERAIL_DEBUG", raising=False)

    def install(error: BaseException) -> None:
        def callback() -> None:
            raise error

        command = click.Command("runs", callback=callback)
        monkeypatch.setattr(cli, "load_command", lambda name: command)

    return install


def rerail_process(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rerail", *arguments],
        capture_output=True, text=True, check=False, timeout=240, **options,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"rerail {rerail.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands_without_importing_them(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "runs" in text
    assert "Example" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_nothing_is_imported_until_asked_for() -> None:
    code = (
        "import sys, rerail.cli\n"
        "rerail.cli.main(['--help'])\n"
        "loaded = [m for m in sys.modules if m.startswith('rerail.cli.') and '._' not in m]\n"
        "assert loaded == [], loaded\n"
        "heavy = {'rich', 'jinja2', 'psutil', 'sqlite3', 'elftools'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_store_loads_nothing_heavy() -> None:
    code = (
        "import sys, rerail.store\n"
        "heavy = {'rich', 'jinja2', 'psutil', 'sqlite3', 'elftools', 'shutil', 'tempfile'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_typo_is_answered_with_the_nearest_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["shwo"]) == 2
    assert "Did you mean `rerail show`?" in capsys.readouterr().err


def test_a_forgotten_run_is_answered_with_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["python", "train.py", "--lr", "1"]) == 2
    assert "rerail run -- python train.py --lr 1" in capsys.readouterr().err


def test_a_wrong_option_names_the_help_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", "--colour"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--colour" in captured.err
    assert "rerail runs --help" in captured.err


@pytest.mark.parametrize("kind", [UsageError, UnknownRun])
def test_an_error_of_ours_is_a_sentence_and_what_to_type(
    failing: object, capsys: pytest.CaptureFixture[str], kind: type
) -> None:
    failing(kind("it is gone", "Type this."))  # type: ignore[operator]
    assert cli.main(["runs"]) == 2
    assert capsys.readouterr().err == "rerail: it is gone\nType this.\n"


def test_a_defect_is_one_line_and_a_file(
    failing: object, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / ".rerail").mkdir()
    failing(ZeroDivisionError("by\nzero"))  # type: ignore[operator]
    assert cli.main(["runs"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert "ZeroDivisionError: by zero" in captured.err
    (saved,) = (tmp_path / ".rerail").iterdir()
    assert str(saved) in captured.err
    assert "Traceback" in saved.read_text()
    assert saved.stat().st_mode & 0o777 == 0o600


def test_debug_shows_the_traceback(
    failing: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERAIL_DEBUG", "1")
    failing(ZeroDivisionError("x"))  # type: ignore[operator]
    assert cli.main(["runs"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (click.Abort(), 130)])
def test_an_interrupt_is_130(failing: object, error: BaseException, status: int) -> None:
    failing(error)  # type: ignore[operator]
    assert cli.main(["runs"]) == status


def test_a_commands_return_value_is_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    command = click.Command("runs", callback=lambda: 1)
    monkeypatch.setattr(cli, "load_command", lambda name: command)
    assert cli.main(["runs"]) == 1


def test_a_reader_that_goes_away_is_not_an_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rerail", "runs", "--json"],
            stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, check=False, timeout=180,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode in (141, -signal.SIGPIPE)


def test_python_m_rerail_is_the_same(tmp_path: Path) -> None:
    done = rerail_process("--version", cwd=tmp_path)
    assert done.stdout.strip() == f"rerail {rerail.__version__}"
