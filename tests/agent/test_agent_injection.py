"""Which variables bring the agent in, and when LD_PRELOAD is one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from agent_runs import build
from hypothesis import given
from hypothesis import strategies as st

from rerail.agent import inject, preloadable
from rerail.agent.injection import STUB
from rerail.platform.python_flags import needed_libraries, needs_preload

ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (None, f"{STUB}"),
        ("", f"{STUB}"),
        ("/a:/b", f"{STUB}:/a:/b"),
        ("/a::/b", f"{STUB}:/a::/b"),  # an empty element is the working folder
        (f"{STUB}:/a", f"{STUB}:/a"),  # a run inside a run
    ],
)
def test_pythonpath(tmp_path: Path, present: str | None, expected: str) -> None:
    environ = ENVIRON if present is None else {**ENVIRON, "PYTHONPATH": present}
    injection = inject(tmp_path, environ, ["python", "train.py"], 17)

    assert injection.variables == {
        "RERAIL_AGENT": str(tmp_path),
        "RERAIL_T0": "17",
        "PYTHONPATH": expected,
    }
    assert injection.notes == []


@pytest.mark.parametrize(
    ("command", "letter"),
    [
        ("python train.py -I", None),
        ("python -u train.py", None),
        ("python -I train.py", "I"),
        ("python3.11 -uE train.py", "E"),
        ("/opt/x/bin/python3 -W ignore -S train.py", "S"),
        ("python -Wignore -X dev -m torch.distributed.run -I", None),
        ("python -XI train.py", None),
        ("python -c -I", None),
        ("python -Bs -OO -I -c pass", "I"),
        ("env A=1 -u B python -I x.py", "I"),
        ("nice -n 5 nohup python -E x.py", "E"),
        ("timeout -k 3 60 python -I x.py", "I"),
        ("timeout 60 python x.py", None),
        ("taskset 0x3 python -S x.py", "S"),
        ("torchrun --nproc 2 train.py", None),
        ("no-such-program -I", None),
        ("sh -c python", None),
        ("env", None),
        ("", None),
    ],
)
def test_flags_of_python(command: str, letter: str | None) -> None:
    reason = needs_preload(command.split(), ENVIRON)

    assert reason == (letter and f"python -{letter} does not look at PYTHONPATH")


def test_shebang(tmp_path: Path) -> None:
    script = tmp_path / "train"
    for line, letter in (
        ("#!/usr/bin/python3 -I", "I"),
        ("#!/usr/bin/env python3", None),
        ("#!/usr/bin/env -S python3 -E", "E"),
        ("#!/bin/sh -e", None),
    ):
        script.write_text(line + "\nimport x\n")
        script.chmod(0o700)
        reason = needs_preload([str(script)], ENVIRON)
        assert reason == (letter and f"python -{letter} does not look at PYTHONPATH")


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")
def test_preload_is_forced_or_forbidden(tmp_path: Path) -> None:
    environ = {**ENVIRON, "LD_PRELOAD": "libjemalloc.so"}
    forced = inject(tmp_path, environ, ["anything"], 0, preload=True)
    forbidden = inject(tmp_path, environ, ["python", "-I"], 0, preload=False)

    assert forced.variables["LD_PRELOAD"].endswith("native.abi3.so:libjemalloc.so")
    assert forced.notes == ["the agent is preloaded: asked for"]
    assert "LD_PRELOAD" not in forbidden.variables


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")
@pytest.mark.parametrize("folder", ["plain", "with a space", "with:colon", "$ORIGIN", "é"])
def test_a_library_in_any_folder_can_be_preloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = tmp_path / folder / "libnothing.so"
    library.parent.mkdir()
    build(library, _empty_source(tmp_path), "cc")
    environ = {**ENVIRON, "LD_PRELOAD": preloadable(str(library)) or ""}
    done = subprocess.run(
        ["cat", "/proc/self/maps"], env=environ, capture_output=True, text=True, timeout=180
    )

    assert done.stderr == ""
    assert str(library) in done.stdout
    assert preloadable(str(library)) == environ["LD_PRELOAD"], "the second time too"
    assert Path(environ["LD_PRELOAD"]).name == "libnothing.so"


def _empty_source(folder: Path) -> Path:
    source = folder / "nothing.c"
    source.write_text("int nothing;\n")
    return source


def test_a_link_that_others_could_change_is_not_preloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("rerail", f"rerail-{os.getuid()}"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)

    assert preloadable("/with a space/lib.so") is None


def test_needed_libraries() -> None:
    assert any(name.startswith("libc.so") for name in needed_libraries(Path("/bin/sh")))
    assert needed_libraries(Path(__file__)) == []
    assert needed_libraries(Path("/no/such/file")) == []


@given(st.binary(max_size=400))
def test_needed_libraries_of_garbage(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(b"\x7fELF\x02\x01" + tail)

    assert isinstance(needed_libraries(path), list)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)))
def test_any_command_is_answered(words: list[str]) -> None:
    reason = needs_preload(["python", *words], ENVIRON)

    assert reason is None or "PYTHONPATH" in reason
