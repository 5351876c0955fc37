"""The surroundings of a run: interpreter, packages, git, limits; nothing of the user's is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.platform import interpreter, packages
from rerail.recorder import surroundings

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "other name.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_document_that_json_can_hold(repository: Path) -> None:
    secret = "hf_" + "a1B2" * 9
    found = surroundings.collect(
        [sys.executable, "train.py", "--hub-token", secret],
        repository,
        {**os.environ, "HF_TOKEN": secret, "PLAIN": "kept"},
        {"RERAIL_T0": "123"},
    )
    text = json.dumps(found)
    assert secret not in text
    assert found["schema"] == 1
    assert found["missing"] == []
    assert found["environment"]["PLAIN"] == "kept"
    assert found["added_environment"] == {"RERAIL_T0": "123"}
    assert found["memory"]["total_bytes"] > 0
    assert found["cpu"]["usable_cores"] >= 1
    assert set(found["limits"]["RLIMIT_NOFILE"]) == {"soft", "hard"}
    assert found["git"]["branch"] == "trunk"


def test_the_packages_are_those_of_the_interpreter_of_the_command(tmp_path: Path) -> None:
    found = surroundings.collect([sys.executable, "x.py"], tmp_path, dict(os.environ), {})
    assert found["interpreter"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert sysconfig.get_path("purelib") in found["interpreter"]["site_packages"]
    import hypothesis

    assert found["packages"]["hypothesis"] == hypothesis.__version__


def test_dirty_files_are_named_and_clean_ones_are_not(repository: Path) -> None:
    clean = surroundings.describe_git(repository)
    assert clean is not None
    assert clean["is_dirty"] is False
    assert len(clean["commit"]) == 40
    (repository / "train.py").write_text("changed\n")
    (repository / "new.py").write_text("new\n")
    git(repository, "mv", "other name.py", "renamed.py")
    dirty = surroundings.describe_git(repository / ".")
    assert dirty is not None
    assert sorted(entry[3:] for entry in dirty["dirty_files"]) == [
        "new.py",
        "renamed.py",
        "train.py",
    ]


def test_programs_that_the_repository_names_are_not_run(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(script))
    git(repository, "config", "core.hooksPath", str(tmp_path))
    (tmp_path / "post-index-change").write_text(script.read_text())
    (tmp_path / "post-index-change").chmod(0o755)
    os.utime(repository / "train.py", (1, 1))  # a stale index is what git likes to rewrite
    mark.unlink(missing_ok=True)
    assert surroundings.describe_git(repository) is not None
    assert not mark.exists()


def test_outside_of_a_repository_there_is_no_git(tmp_path: Path) -> None:
    if any((folder / ".git").exists() for folder in tmp_path.parents):
        pytest.skip("the temporary folder is inside a repository")
    assert surroundings.describe_git(tmp_path) is None


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    found = surroundings.describe_git(tmp_path)
    assert found is None or found["commit"] is None


def make_environment(folder: Path, version: str = "3.11.4") -> Path:
    """What a virtual environment looks like, without an interpreter that could be run."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = /nowhere\nversion = {version}\n")
    python = folder / "bin" / "python"
    python.write_text("#!/bin/false\n")
    python.chmod(0o755)
    minor = ".".join(version.split(".")[:2])
    site = folder / "lib" / f"python{minor}" / "site-packages"
    (site / "torch-2.13.0.dist-info").mkdir(parents=True)
    (site / "torch-2.13.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n\nName: not this\n"
    )
    (site / "my_tool-1.0.egg-info").mkdir()
    (site / "no_metadata-0.3.dist-info").mkdir()
    return python


def test_metadata_is_read_and_the_folder_name_is_the_fallback(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "venv")
    found = interpreter.find_interpreter([str(python), "x.py"], tmp_path, {})
    assert found is not None
    assert found.version == "3.11.4"
    assert packages.installed_packages(found.site_packages) == {
        "my_tool": "1.0",
        "no_metadata": "0.3",
        "torch": "2.13.0+cpu",
    }


COMMANDS = [
    ["python", "train.py"],
    ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"],
    ["env", "-u", "X", "A=1", "python", "train.py"],
    ["nice", "-n", "5", "python", "train.py"],
    ["timeout", "30m", "nice", "python", "train.py"],
    ["bash", "-c", "cd /tmp && exec python train.py | tee log"],
    ["sh", "-euc", "export A=1; A=2 python train.py --x"],
    ["torchrun", "--nproc-per-node", "2", "train.py"],
    ["./run.sh", "--fast"],
    ["uv", "run", "train.py"],
    ["poetry", "run", "python", "train.py"],
    ["bash", "activating.sh"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_interpreter_is_found_behind(tmp_path: Path, command: list[str]) -> None:
    python = make_environment(tmp_path / ".venv")
    for name, text in {
        "run.sh": "#!/usr/bin/env bash\nset -e\npython prepare.py\npython \\\n  train.py\n",
        "activating.sh": "source .venv/bin/activate\npython train.py\n",
        ".venv/bin/torchrun": f"#!{python}\nimport torch\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    needs_no_path = command[0] in ("uv", "poetry") or command[-1] == "activating.sh"
    path = "/usr/bin:/bin" if needs_no_path else f"{python.parent}:/usr/bin:/bin"
    found = interpreter.find_interpreter(command, tmp_path, {"PATH": path})
    assert found is not None
    assert Path(found.path) == python


@pytest.mark.parametrize("command", [["true"], ["./absent"], [], ["bash", "-c", "echo hello"]])
def test_a_command_without_python_has_no_interpreter(tmp_path: Path, command: list[str]) -> None:
    assert interpreter.find_interpreter(command, tmp_path, {"PATH": "/usr/bin:/bin"}) is None


def test_a_pyenv_shim_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "pyenv"
    (root / "shims").mkdir(parents=True)
    (root / "shims" / "python").write_text("#!/bin/sh\n")
    (root / "shims" / "python").chmod(0o755)
    real = make_environment(root / "versions" / "3.12.2", "3.12.2")
    environ = {"PATH": str(root / "shims")}
    (root / "version").write_text("3.12\n")
    found = interpreter.find_interpreter(["python", "x.py"], tmp_path, environ)
    assert found is not None
    assert Path(found.path) == real


@unhurried
@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_command_is_survived(command: list[str]) -> None:
    interpreter.find_interpreter(
        [word.replace("\0", "") for word in command], Path("/nonexistent"), {"PATH": "/nowhere"}
    )


@unhurried
@given(st.text(max_size=100))
def test_any_git_status_is_survived(text: str) -> None:
    surroundings.parse_git_status(text)
