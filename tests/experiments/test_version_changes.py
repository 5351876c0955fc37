"""Versions as people write them, lists of what was installed, and the command that enters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.changes import apply_changes, exclusive_groups, parse_change, parse_changes
from rerail.changes.apply import DoesNotApply
from rerail.errors import RerailError, UsageError
from rerail.experiments.environments.activation import enter
from rerail.experiments.environments.upgrades import read_upgrades
from rerail.experiments.environments.uv import connection_variables, index_variables


@pytest.mark.parametrize(
    ("text", "kind", "knob", "value"),
    [
        ("torch==2.5.*", "package", "package torch", "torch==2.5.*"),
        ("numpy<2", "package", "package numpy", "numpy<2"),
        ("Some_Name >= 1", "package", "package some-name", "Some_Name>=1"),
        ("a[b]~=1.4", "package", "package a", "a[b]~=1.4"),
        ("without:faiss", "package", "package faiss", ""),
        ("python=3.12", "python", "python", "3.12"),
        ("python==3.12.1", "python", "python", "3.12.1"),
        ("lr=0.1", "setting", "lr", "0.1"),
        ("python=fast", "setting", "python", "fast"),
        ("NAME==1", "environment", "NAME", "=1"),
    ],
)
def test_a_version_is_told_from_other_changes(text: str, kind: str, knob: str, value: str) -> None:
    change = parse_change(text)
    assert (change.kind, change.knob, change.value) == (kind, knob, value)


def test_two_versions_of_one_package_exclude_each_other() -> None:
    changes = parse_changes(["numpy<2", "Numpy==1.20", "without:numpy", "torch<2"])
    assert exclusive_groups(changes) == [["numpy<2", "Numpy==1.20", "without:numpy"]]


def test_who_builds_no_environments_refuses_versions() -> None:
    with pytest.raises(DoesNotApply, match="environment of its own"):
        apply_changes(["python", "t.py"], {}, [parse_change("numpy<2")])


@pytest.mark.parametrize("text", ["without:", "without:-x", "without:a b"])
def test_without_needs_a_name(text: str) -> None:
    with pytest.raises(UsageError, match="names no package"):
        parse_change(text)


@given(st.text(alphabet="abN=<>!~*.,[]@;:/ -'\"0129x\n", max_size=40))
@settings(deadline=None)
def test_any_text_is_a_change_or_is_refused_in_words(text: str) -> None:
    try:
        parse_change(text)
    except UsageError as error:
        assert error.message


def lists(folder: Path, old: str, new: str) -> tuple[Path, Path]:
    (folder / "old.txt").write_text(old)
    (folder / "new.txt").write_text(new)
    return folder / "old.txt", folder / "new.txt"


def test_each_package_that_differs_is_one_change_back(tmp_path: Path) -> None:
    old = "# comment\nsame==1\nUp_one==1.0  # why\ngone==3\nlink @ file:///a.whl\n-e ./mine\n"
    new = "same==1\nup-one==2.0 \\\n  --hash=sha256:00\ncame==1\nlink @ file:///b.whl\nloose>=1\n"
    found = read_upgrades(*lists(tmp_path, old, new))
    changes = ["without:came", "gone==3", "link@ file:///a.whl", "Up_one==1.0"]
    assert sorted(text.replace("link @", "link@") for text in found.changes) == sorted(changes)
    assert [parse_change(text).kind for text in found.changes] == ["package"] * 4
    assert len(found.notes) == 2 and "-e ./mine" in found.notes[0] and "loose" in found.notes[1]


def test_lists_that_are_alike_or_missing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing was upgraded"):
        read_upgrades(*lists(tmp_path, "a==1\n", "A==1\n".lower()))
    with pytest.raises(RerailError, match="cannot be read"):
        read_upgrades(tmp_path / "none.txt", tmp_path / "new.txt")


@given(old=st.text(max_size=200), new=st.text(max_size=200))
@settings(deadline=None, max_examples=50)
def test_any_two_files_are_answered(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str
) -> None:
    folder = tmp_path_factory.mktemp("lists")
    (folder / "old").write_bytes(old.encode("utf-8", "replace"))
    (folder / "new").write_bytes(new.encode("utf-8", "replace"))
    try:
        read_upgrades(folder / "old", folder / "new")
    except RerailError as error:
        assert error.message


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "built"
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "torchrun"):
        (folder / "bin" / name).write_text("#!/nowhere/python\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("command", "expected", "is_by_path"),
    [
        ("python3.11 -u t.py", "{built}/python -u t.py", False),
        ("/usr/bin/python t.py", "{built}/python t.py", False),
        ("env A=1 nice -n 5 python t.py", "env A=1 nice -n 5 {built}/python t.py", False),
        ("uv run t.py", "uv run {built}/python t.py", False),
        ("torchrun --nproc 2 t.py", "{built}/torchrun --nproc 2 t.py", False),
        ("{own}/torchrun t.py", "{built}/torchrun t.py", False),
        ("{own}/train --x", "{built}/python {own}/train --x", False),
        ("sh train.sh", "sh train.sh", True),
        ("env", "env", True),
    ],
)
def test_the_interpreter_is_replaced_where_a_word_names_it(
    tmp_path: Path, built: Path, command: str, expected: str, is_by_path: bool
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("torchrun", "train"):
        (own / name).write_text(f"#!{own}/python\n")
        (own / name).chmod(0o755)
    words = command.format(own=own).split()
    entered = enter(words, {"PATH": f"{own}{os.pathsep}/usr/bin"}, built)
    assert " ".join(entered.command) == expected.format(built=built / "bin", own=own)
    assert entered.is_by_path == is_by_path
    assert entered.variables["PATH"].split(os.pathsep)[0] == str(built / "bin")
    assert entered.variables["VIRTUAL_ENV"] == str(built)


def test_uv_asks_the_indexes_that_pip_is_set_up_for(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror.example/simple\n"
        "[install]\nfind-links =\n    /a\n    /b\n"
    )
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    found = index_variables(environ, tmp_path)
    assert found["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert found["UV_FIND_LINKS"] == "/a,/b"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    named = {**environ, "PIP_FIND_LINKS": "/c", "UV_DEFAULT_INDEX": "https://other.example"}
    found = index_variables(named, tmp_path)
    assert found["UV_FIND_LINKS"] == "/c" and "UV_DEFAULT_INDEX" not in found
    assert index_variables({**environ, "PIP_CONFIG_FILE": os.devnull}, tmp_path) == {}


def test_uv_is_given_the_certificate_and_the_proxy_of_pip(tmp_path: Path) -> None:
    bundle = tmp_path / "company.pem"
    bundle.touch()
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    def given(**variables: str) -> dict[str, str]:
        return connection_variables({**environ, **variables}, tmp_path)

    without_files = {"PIP_CONFIG_FILE": os.devnull}
    assert given(**without_files) == {"UV_SYSTEM_CERTS": "true"}
    assert given(**without_files, PIP_CERT=str(bundle)) == {"SSL_CERT_FILE": str(bundle)}
    assert given(**without_files, REQUESTS_CA_BUNDLE=str(bundle)) == {"SSL_CERT_FILE": str(bundle)}
    assert given(**without_files, PIP_CERT=str(tmp_path)) == {"SSL_CERT_DIR": str(tmp_path)}

    proxy = "http://proxy.example:3128"
    (tmp_path / "pip.conf").write_text(f"[global]\ncert = {bundle}\nproxy = {proxy}\n")
    assert given() == {"SSL_CERT_FILE": str(bundle), "HTTPS_PROXY": proxy, "HTTP_PROXY": proxy}
    of_uv = given(SSL_CERT_FILE="/other.pem", https_proxy="http://other.example")
    assert of_uv == {"HTTP_PROXY": proxy}
