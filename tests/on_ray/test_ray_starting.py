"""The command with which Ray starts a worker: recorded where it can be, bare where it cannot.

A program of a few lines stands for Ray's worker here; test_ray_deaths.py has the real ones.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import rerail.ray
from rerail.errors import UnknownRun, UsageError

PROGRAM = "import os; print('pid', os.getpid(), 'group', os.getpgid(0)); raise SystemExit(3)"
SESSION = ["--session-name=s1", "--worker-id=abcd1234ffff", "--node-ip-address=10.0.0.2"]


@pytest.fixture(autouse=True)
def _own_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def start(environment: dict[str, object], words: list[str], **variables: str) -> str:
    """As Ray does: `exec` before the words, in a shell."""
    line = f"exec {environment['py_executable']} {shlex.join(words)}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert done.returncode == 3, done.stderr
    return done.stdout


def test_a_worker_becomes_a_run_that_names_job_worker_and_node(tmp_path: Path) -> None:
    environment = rerail.ray.runtime_env({"env_vars": {"A": "1"}}, home=tmp_path / "home")
    assert environment["env_vars"] == {"A": "1"}
    printed = start(environment, ["-c", PROGRAM, *SESSION, f"--temp-dir={tmp_path}"])
    [run] = rerail.ray.runs(home=tmp_path / "home")
    info = run.info()
    assert info.outcome is not None and info.outcome.exit_code == 3
    about = info.settings["ray"]
    assert about["worker"] == "abcd1234ffff" and about["ip"] == "10.0.0.2"
    assert info.settings["label"] == "ray worker abcd1234"
    assert printed == f"pid {info.root_pid} group {info.root_pid}\n"  # Ray ends this group
    assert [e.data for e in run.events() if e.kind == "ray"] == [{"pid": info.root_pid}]


def test_where_rerail_is_not_there_the_worker_starts_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerail, "__file__", str(tmp_path / "elsewhere" / "__init__.py"))
    environment = rerail.ray.runtime_env(home=tmp_path / "home")
    assert start(environment, ["-c", PROGRAM]).startswith("pid ")
    assert rerail.ray.runs(home=tmp_path / "home") == []


def test_a_recorder_that_cannot_work_becomes_the_worker(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file stands where the store should be")
    environment = rerail.ray.runtime_env(home=tmp_path / "home")
    assert start(environment, ["-c", PROGRAM]).startswith("pid ")


def test_a_worker_below_rerail_run_is_recorded_once(tmp_path: Path) -> None:
    environment = rerail.ray.runtime_env(home=tmp_path / "home")
    assert start(environment, ["-c", PROGRAM], RERAIL_AGENT=str(tmp_path)).startswith("pid ")
    assert rerail.ray.runs(home=tmp_path / "home") == []


def test_an_interpreter_of_the_users_is_kept(tmp_path: Path) -> None:
    given = {"py_executable": f"{shlex.quote(sys.executable)} -X dev"}
    environment = rerail.ray.runtime_env(given, home=tmp_path / "home")
    start(environment, ["-c", PROGRAM])
    [run] = rerail.ray.runs(home=tmp_path / "home")
    assert run.info().command[:3] == [sys.executable, "-X", "dev"]


def test_a_container_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="container"):
        rerail.ray.runtime_env({"image_uri": "docker.io/user/train"})


@pytest.mark.thorough
def test_an_error_is_explained_by_the_worker_that_it_names(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = rerail.ray.runtime_env(home=home)
    start(environment, ["-c", PROGRAM, *SESSION])
    start(environment, ["-c", PROGRAM, *SESSION])
    first, second = rerail.ray.runs(home=home)
    error = RuntimeError(f"The actor died.\n\tpid: {second.info().root_pid}\n\tip: 10.0.0.2")
    rerail.ray.explain(error, home=home)
    assert (second.path / "diagnosis.json").exists()
    assert not (first.path / "diagnosis.json").exists()
    assert json.loads((second.path / "diagnosis.json").read_text())["outcome"]["exit_code"] == 3


def test_without_a_record_the_error_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.ray.explaining.PATIENCE_SECONDS", 0.0)
    with pytest.raises(UnknownRun, match="no worker of Ray that failed is on record"):
        rerail.ray.explain(RuntimeError("pid=4711"), home=tmp_path)


# Asks for a worker, and hears of its end, through pipes: it is no process of the driver's tree.
DRIVER = """\
from pathlib import Path
import rerail.ray

class ActorDiedError(Exception):
    __module__ = "ray.exceptions"

Path("asked").write_text(rerail.ray.runtime_env()["py_executable"])
raise ActorDiedError(f"The actor died.\\n\\tpid: {Path('pid').read_text()}\\nSome causes are")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("names_it", [True, False])
def test_the_answer_to_a_driver_is_how_its_worker_ended(tmp_path: Path, names_it: bool) -> None:
    for pipe in ("asked", "pid"):
        os.mkfifo(tmp_path / pipe)
    (tmp_path / "driver.py").write_text(DRIVER if names_it else DRIVER.replace("pid:", "id:"))
    command = [sys.executable, "-m", "rerail", "run", "--home=store", "--", sys.executable]
    driver = subprocess.Popen(
        [*command, "driver.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    asked = {"py_executable": (tmp_path / "asked").read_text()}
    pid = start(asked, ["-c", PROGRAM, *SESSION]).split()[1]
    (tmp_path / "pid").write_text(pid)
    _, said = driver.communicate(timeout=180)
    assert driver.returncode == 1, said
    assert f"A multiprocessing child (pid {pid}) exited with code 3." in said
    assert "worker-crashed" in said and "the command ended with exit code 1" in said
