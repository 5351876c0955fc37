"""The reference and the man pages that are made from the program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rerail.cli._discovery import command_names

SCRIPT = Path(__file__).parents[2] / "scripts" / "write-manual"


def write(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_the_reference_is_as_the_program_says() -> None:
    done = write("--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def man_pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("man")
    assert write("--man", str(folder)).returncode == 0
    return sorted((folder / "man1").iterdir())


def test_every_command_has_a_man_page(man_pages: list[Path]) -> None:
    names = {page.name for page in man_pages}
    assert {"rerail.1", *(f"rerail-{name}.1" for name in command_names())} <= names
    assert "rerail-study-new.1" in names


@pytest.mark.parametrize("program", ["groff", "mandoc"])
def test_man_pages_are_read_without_a_warning(program: str, man_pages: list[Path]) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
    how = ["groff", "-ww", "-man", "-Tutf8", "-z"]
    how = how if program == "groff" else ["mandoc", "-T", "lint", "-W", "warning"]
    done = subprocess.run([*how, *man_pages], capture_output=True, text=True, timeout=180)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_man_page_shows_what_is_typed(man_pages: list[Path]) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("there is no mandoc here")
    page = next(page for page in man_pages if page.name == "rerail-run.1")
    text = subprocess.run(
        ["mandoc", "-T", "ascii", str(page)], capture_output=True, text=True, timeout=180
    ).stdout
    plain = "".join(text.split("\b"))
    assert "rerail run --stall 300 -- python train.py" in plain
    assert "'--resume {checkpoint}'" in plain
