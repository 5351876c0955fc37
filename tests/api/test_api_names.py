"""`import rerail`: cheap, typed, and the same names for people, type checkers and tools."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import rerail
from rerail import api


def in_fresh_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import rerail; print(set(sys.modules) - before)"
    assert in_fresh_python(code) == "{'rerail'}\n"


def test_the_functions_load_no_library_before_they_are_called() -> None:
    code = (
        "import sys, rerail; rerail.explain, rerail.runs, rerail.record, rerail.causes\n"
        "print({'click', 'rich', 'jinja2', 're2', 'psutil'} & set(sys.modules))"
    )
    assert in_fresh_python(code) == "set()\n"


def test_every_name_is_there_and_no_other() -> None:
    assert set(rerail.__all__) == {*api.__all__, "step", "phase", "__version__"}
    for name in api.__all__:
        assert getattr(rerail, name) is getattr(api, name)
        assert name in dir(rerail)
    with pytest.raises(AttributeError, match="no_such_name"):
        rerail.no_such_name  # noqa: B018


def test_there_is_one_version() -> None:
    assert version("rerail") == rerail.__version__


def test_type_checkers_are_told_that_it_is_typed() -> None:
    assert (Path(rerail.__file__).parent / "py.typed").is_file()


def test_every_public_function_is_described() -> None:
    for name in api.__all__:
        assert getattr(api, name).__doc__, name
