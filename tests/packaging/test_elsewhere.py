"""Where rerail does not run, it says where it does; without its C library, what that costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rerail
from rerail.agent import inject

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(rerail.__file__).parent


def under_windows(code: str) -> subprocess.CompletedProcess[str]:
    text = f"import sys; sys.platform = 'win32'; sys.argv[1:] = ['runs']; {code}"
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=180)


def test_the_command_names_wsl_on_windows() -> None:
    done = under_windows("from rerail.__main__ import main; sys.exit(main())")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == rerail.ON_WINDOWS + "\n"
    assert "WSL" in done.stderr


def test_a_name_from_python_is_refused_with_the_same_words_on_windows() -> None:
    done = under_windows("from rerail import explain")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {rerail.ON_WINDOWS}"
    assert under_windows("import rerail; rerail.__version__").returncode == 0


def test_macos_says_why_an_isolated_python_has_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.agent.injection.sys.platform", "darwin")
    injection = inject(tmp_path, {}, ["python", "-I", "train.py"], 0)

    assert "LD_PRELOAD" not in injection.variables
    assert "DYLD_INSERT_LIBRARIES" in " ".join(injection.notes)
    assert inject(tmp_path, {}, ["python", "train.py"], 0).notes == []


@pytest.fixture
def without_library(tmp_path: Path) -> dict[str, str]:
    """An environment whose rerail was installed where there was no compiler."""
    unwanted = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT, tmp_path / "installed" / "rerail", ignore=unwanted)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}


@pytest.mark.thorough
def test_every_run_says_that_the_library_is_missing(
    tmp_path: Path, without_library: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "rerail", "run", "--home", str(tmp_path)]
    program = ["--", sys.executable, "-c", "print('trained')"]
    for _ in range(2):
        done = subprocess.run(
            [*command, *program], env=without_library, capture_output=True, text=True, timeout=240
        )
        said = [line for line in done.stderr.splitlines() if "C library" in line]

        assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
        assert len(said) == 1 and len(said[0]) <= 80
        assert said[0].startswith("rerail: no C library: a crash leaves no stacks.")
    quiet = subprocess.run(
        [*command, "--quiet", *program],
        env=without_library,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_the_sdist_has_every_file_that_the_c_library_is_made_of() -> None:
    """A header that pyproject.toml does not name is missing there, and nothing can be compiled."""
    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    (library,) = project["tool"]["setuptools"]["ext-modules"]
    named = {Path(name).name for name in (*library["sources"], *library["depends"])}

    assert named == {path.name for path in (ROOT / "agent" / "native").iterdir()}
