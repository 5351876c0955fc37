"""Versions as changes, with a real uv, real wheels and commands that really die."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rerail import cli
from rerail.changes import Profile, parse_change
from rerail.experiments.environments import build
from rerail.experiments.environments.build import Environments, Prepared
from rerail.experiments.environments.uv import EnvironmentNotBuilt, find_uv

sys.path.insert(0, str(Path(__file__).parent.parent / "programs"))
from wheelhouse import FAULTY, GOOD, make_environment, make_wheel

UV = find_uv()
pytestmark = pytest.mark.skipif(UV is None, reason="uv is not installed")

Ask = Callable[..., tuple[int, dict[str, Any]]]
NAMES = [f"part{letter}" for letter in "abcdefgh"]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only index that uv sees in these tests."""
    assert UV is not None
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_", "PYTHONPATH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    return folder


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """In this process: what it starts are the trials."""

    def ask(verb: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.chdir(tmp_path)
        before = signal.getsignal(signal.SIGTERM)
        home = str(tmp_path / "home")
        status = cli.main([verb, "--yes", "--home", home, "--json", *arguments])
        signal.signal(signal.SIGTERM, before)
        said = capsys.readouterr()
        assert status in (0, 1), said.err
        return status, {**json.loads(said.out), "said": said.err}

    return ask


def own_environment(tmp_path: Path, house: Path, *requirements: str) -> Path:
    assert UV is not None
    return make_environment(UV, tmp_path / "own", house, requirements)


def program(tmp_path: Path, *names: str, more: str = "") -> str:
    file = tmp_path / "train.py"
    lines = [f"import {name}; {name}.use()" for name in names]
    file.write_text("\n".join([*lines, more, ""]))
    return str(file)


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file of an environment: its inode and what is in it."""
    return {
        str(path): (path.stat().st_ino, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def environments(tmp_path: Path, command: list[str], said: list[str] | None = None) -> Environments:
    say = (said if said is not None else []).append
    environ = dict(os.environ)
    home = tmp_path / "home"
    return Environments(command, str(tmp_path), environ, home, "t", say, lambda: 120.0, most=2)


def prepare(make: Environments, text: str, python: Path) -> Prepared:
    command = [str(python), "t.py"]
    return make.prepare(command, dict(os.environ), [parse_change(text)], Profile())


@pytest.mark.thorough
def test_the_upgraded_package_that_broke_it_is_named_and_the_own_environment_is_as_it_was(
    tmp_path: Path, house: Path, ask: Ask
) -> None:
    for name in NAMES:
        make_wheel(house, name, "1.0")
        make_wheel(house, name, "2.0", FAULTY if name == "partf" else GOOD)
    python = own_environment(tmp_path, house, *(f"{name}==2.0" for name in NAMES))
    (tmp_path / "old.txt").write_text("".join(f"{name}==1.0\n" for name in NAMES))
    (tmp_path / "new.txt").write_text("".join(f"{name}==2.0\n" for name in NAMES))
    before = contents(tmp_path / "own")
    command = ["--", str(python), program(tmp_path, *NAMES)]
    status, document = ask("isolate", "--upgrades", "old.txt", "new.txt", *command)
    assert status == 0, document
    assert document["status"] == "confirmed" and document["changes"] == ["partf==1.0"]
    assert all(each["besides"] == [] for each in document["environments"])
    assert contents(tmp_path / "own") == before
    assert not (tmp_path / "home" / "environments").exists()


@pytest.mark.thorough
def test_what_the_resolver_has_to_change_besides_is_named(
    tmp_path: Path, house: Path, ask: Ask
) -> None:
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0", FAULTY)
    make_wheel(house, "upper", "1.0", requires=["lower<2"])
    make_wheel(house, "upper", "2.0", requires=["lower>=2"])
    python = own_environment(tmp_path, house, "lower==2.0", "upper==2.0")
    works_on = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    command = [str(python), program(tmp_path, "lower", "upper", more=works_on)]
    _, document = ask("isolate", "--try", "lower<2", "--", *command)
    assert document["changes"] == ["lower<2"]
    (built,) = document["environments"]
    assert built["besides"] == ["upper 2.0 -> 1.0"]
    status, proof = ask("verify", "--with", "lower<2", "--", *command)
    assert status == 0 and proof["status"] == "proven", proof["summary"]


def test_a_package_that_has_to_move_moves_to_the_version_that_another_change_names(
    tmp_path: Path, house: Path
) -> None:
    for version in ("1.0", "1.5", "2.0"):
        make_wheel(house, "lower", version)
    make_wheel(house, "upper", "1.0", requires=["lower<2"])
    make_wheel(house, "upper", "2.0", requires=["lower>=2"])
    python = own_environment(tmp_path, house, "lower==2.0", "upper==2.0")
    for peers, version in (({}, "1.5"), ({"lower": "lower==1.0"}, "1.0")):
        make = environments(tmp_path, [str(python), "t.py"])
        make.peers = peers
        prepared = prepare(make, "upper==1.0", python)
        assert prepared.environment is not None
        assert prepared.environment.resolution.besides == [f"lower 2.0 -> {version}"]
        make.close()


@pytest.mark.thorough
def test_a_change_that_cannot_be_built_is_left_out_with_the_resolvers_reason(
    tmp_path: Path, house: Path, ask: Ask
) -> None:
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0", FAULTY)
    python = own_environment(tmp_path, house, "lower==2.0")
    tries = ["lower==7.0", "lower==1.0", "without:nothing", "python=3.99", "lower==2.0"]
    flags = [word for text in tries for word in ("--try", text)]
    _, document = ask("isolate", *flags, "--", str(python), program(tmp_path, "lower"))
    assert document["status"] == "confirmed" and document["changes"] == ["lower==1.0"]
    left_out = document["not_applicable"]
    assert "there is no version of lower==7.0" in left_out["lower==7.0"]
    assert "not installed" in left_out["without:nothing"]
    assert "uv python install 3.99" in left_out["python=3.99"]
    assert "installed already" in left_out["lower==2.0"]


def test_a_package_can_be_taken_away(tmp_path: Path, house: Path, ask: Ask) -> None:
    make_wheel(house, "lower", "2.0", FAULTY)
    python = own_environment(tmp_path, house, "lower")
    file = tmp_path / "train.py"
    file.write_text(
        "try:\n    import lower\nexcept ImportError:\n    pass\nelse:\n    lower.use()\n"
    )
    _, document = ask("isolate", "--try", "without:lower", "--", str(python), str(file))
    assert document["status"] == "confirmed" and document["changes"] == ["without:lower"]


def other_python() -> str | None:
    """Another version of Python that is here, as 3.12."""
    own = sys.version_info[:2]
    for minor in range(13, 8, -1):
        if (3, minor) == own:
            continue
        found = shutil.which(f"python3.{minor}")
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
        if (found and "shims" not in found) or any(pyenv.glob(f"3.{minor}.*/bin/python")):
            return f"3.{minor}"
    return None


def test_another_python_that_is_installed(tmp_path: Path, house: Path, ask: Ask) -> None:
    version = other_python()
    if version is None:
        pytest.skip("only one version of Python is installed")
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0")
    python = own_environment(tmp_path, house, "lower==1.0")
    more = "import os, sys\nassert lower.__version__ == '1.0'\n"
    more += f"sys.version_info[:2] == {sys.version_info[:2]!r} and os.abort()\n"
    file = program(tmp_path, "lower", more=more)
    _, document = ask("isolate", "--try", f"python={version}", "--", str(python), file)
    assert document["status"] == "confirmed", document
    assert document["changes"] == [f"python={version}"]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["script", "shell"])
def test_the_command_enters_the_environment(
    tmp_path: Path, house: Path, ask: Ask, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(house, "lower", "1.0", script="lowerrun")
    make_wheel(house, "lower", "2.0", FAULTY, script="lowerrun")
    python = own_environment(tmp_path, house, "lower==2.0")
    file = program(tmp_path, "lower")
    command = {
        "script": [str(python.parent / "lowerrun"), file],
        "shell": ["sh", "-c", f"python {file}; exit $?"],
    }[kind]
    monkeypatch.setenv("PATH", f"{python.parent}{os.pathsep}{os.environ['PATH']}")
    _, document = ask("isolate", "--try", "lower==1.0", "--", *command)
    assert document["changes"] == ["lower==1.0"], document
    assert ("put first on PATH" in document["said"]) == (kind == "shell")


def test_a_script_that_names_its_own_python_is_found_out(
    tmp_path: Path, house: Path, ask: Ask
) -> None:
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0", FAULTY)
    python = own_environment(tmp_path, house, "lower==2.0")
    command = ["sh", "-c", f"{python} {program(tmp_path, 'lower')}; exit $?"]
    with pytest.raises(AssertionError, match="did not take effect"):
        ask("isolate", "--try", "lower==1.0", "--", *command)


def test_an_editable_install_stays_a_link(tmp_path: Path, house: Path) -> None:
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0")
    python = own_environment(tmp_path, house, "lower==2.0")
    project = tmp_path / "project"
    (project / "mine").mkdir(parents=True)
    (project / "mine" / "__init__.py").write_text("")
    site = next((tmp_path / "own").glob("lib/python3*/site-packages"))
    (site / "mine.pth").write_text(f"{project}\n")
    make = environments(tmp_path, [str(python), "t.py"])
    prepared = prepare(make, "lower==1.0", python)
    code = "import lower, mine; print(lower.__version__, mine.__file__)"
    done = subprocess.run([prepared.changed.command[0], "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["1.0", str(project / "mine" / "__init__.py")], done.stderr
    make.close()


def test_data_of_a_package_is_copied_and_its_code_is_shared(tmp_path: Path, house: Path) -> None:
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0")
    make_wheel(house, "other", "1.0")
    python = own_environment(tmp_path, house, "lower==2.0", "other")
    site = next((tmp_path / "own").glob("lib/python3*/site-packages"))
    (site / "other" / "cache.json").write_text("{}")
    make = environments(tmp_path, [str(python), "t.py"])
    prepared = prepare(make, "lower==1.0", python)
    assert prepared.environment is not None
    copy = next(prepared.environment.folder.glob("lib/python3*/site-packages"))
    assert (copy / "other" / "__init__.py").samefile(site / "other" / "__init__.py")
    (copy / "other" / "cache.json").write_text("written by a trial")
    assert (site / "other" / "cache.json").read_text() == "{}"
    assert "1.0" in (copy / "lower" / "__init__.py").read_text()
    assert "2.0" in (site / "lower" / "__init__.py").read_text()
    make.close()
    assert not (tmp_path / "home" / "environments").exists()


@pytest.mark.parametrize("mode", ["copy", "hardlink", "symlink"])
def test_a_file_that_two_packages_bring_is_not_overwritten_in_the_original(
    tmp_path: Path, house: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """uv installs over it while it is a link to the user's own."""
    make_wheel(house, "lower", "1.0", more={"shared.py": "# of lower 1.0\n"})
    make_wheel(house, "lower", "2.0")
    make_wheel(house, "other", "1.0", more={"shared.py": "# of other\n"})
    python = own_environment(tmp_path, house, "lower==2.0", "other")
    before = contents(tmp_path / "own")
    monkeypatch.setenv("UV_LINK_MODE", mode)
    make = environments(tmp_path, [str(python), "t.py"])
    prepared = prepare(make, "lower==1.0", python)
    assert prepared.environment is not None
    (copy,) = prepared.environment.folder.glob("lib/python3*/site-packages/shared.py")
    assert copy.read_text() == "# of lower 1.0\n"
    make.close()
    assert contents(tmp_path / "own") == before


def test_few_environments_are_kept_and_a_full_disk_is_refused(
    tmp_path: Path, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        make_wheel(house, "lower", f"{number}.0")
    python = own_environment(tmp_path, house, "lower==4.0")
    said: list[str] = []
    make = environments(tmp_path, [str(python), "t.py"], said)
    for number in range(3):
        make.leave(prepare(make, f"lower=={number}.0", python))
    built = (tmp_path / "home" / "environments" / "t").iterdir()
    assert len([path for path in built if path.name != "resolver"]) == 2
    assert any("an environment takes" in text for text in said)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(build.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    with pytest.raises(EnvironmentNotBuilt, match=r"has 1 MiB free"):
        prepare(make, "lower==3.0", python)
    make.close()


@pytest.mark.thorough
@pytest.mark.torch
def test_a_version_is_tried_and_verified_from_a_checkpoint(
    tmp_path: Path, house: Path, ask: Ask
) -> None:
    torch = pytest.importorskip("torch")
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0")
    python = own_environment(tmp_path, house, "lower==2.0")
    (site,) = (tmp_path / "own").glob("lib/python3*/site-packages")
    (site / "torch_of_the_tests.pth").write_text(f"{Path(torch.__file__).parent.parent}\n")
    training = Path(__file__).parent.parent / "programs" / "checkpoint_trains.py"
    file = tmp_path / "train.py"
    file.write_text(
        "import runpy, sys, lower\n"
        "sys.argv += ['--safe'] if lower.__version__ == '1.0' else []\n"
        f"runpy.run_path({str(training)!r}, run_name='__main__')\n"
    )
    words = ["--out", "out", "--steps", "2000", "--every", "20", "--dies-at", "370"]
    command = [str(python), str(file), *words]
    resuming = ["--checkpoint", "out/step-*", "--resume-args", "--resume {checkpoint}"]
    run = [sys.executable, "-m", "rerail", "run", "-q", "--no-explain", "--home", "home"]
    subprocess.run([*run, "--", *command], cwd=tmp_path, capture_output=True)
    _, document = ask("isolate", *resuming, "--try", "lower<2", "--", *command)
    assert document["changes"] == ["lower<2"], document
    assert {trial["checkpoint"] for trial in document["trials"]} == {"out/step-360.pt"}
    crashed = [t["exposure"] for t in document["trials"] if t["outcome"] == "crashed"]
    assert set(crashed) == {10}
    status, proof = ask("verify", *resuming, "--with", "lower<2", "--", *command)
    assert status == 0 and proof["start"]["state"] == "adopted", proof["summary"]
    assert {trial["checkpoint"] for trial in proof["trials"]} == {"out/step-360.pt"}
    for name in ("environments", "scratch"):
        assert not (tmp_path / "home" / name).exists()


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_versions_are_tried_beside_edits(tmp_path: Path, house: Path, ask: Ask) -> None:
    """The failure takes both the new version and the edit: either one taken back removes it."""
    make_wheel(house, "lower", "1.0")
    make_wheel(house, "lower", "2.0")
    python = own_environment(tmp_path, house, "lower==2.0")
    file = tmp_path / "train.py"
    file.write_text(
        "import os, lower\nFAST = 0\nif FAST and lower.__version__ == '2.0': os.abort()\n"
    )
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "It works"]):
        subprocess.run([*git, *words], check=True)
    file.write_text(file.read_text().replace("FAST = 0", "FAST = 1"))
    command = [str(python), "train.py"]
    _, document = ask("isolate", "--edits", "--alternatives", "--try", "lower<2", "--", *command)
    assert document["status"] == "confirmed", document
    found = [document["changes"], *document["alternatives"]]
    assert sorted(found) == [["edit:train.py:2"], ["lower<2"]], document
    assert file.read_text().count("FAST = 1") == 1
