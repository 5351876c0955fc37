"""What trackers say of a run that died, with rerail and without, by the trackers' own readers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from memory_cgroup import small_memory_group
from wandb_server import KEY, Told, wandb_server

from rerail.store import RunFolder

PROGRAM = Path(__file__).parents[1] / "programs" / "tracked_training.py"
GUARD_SECONDS = 240


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    why = f"{', '.join(missing)} is not installed: pip install --group trackers"
    return pytest.mark.skipif(bool(missing), reason=why)


with_mlflow = needs("mlflow")
with_database = needs("mlflow", "sqlalchemy", "alembic")
# Of mlflow itself; mlflow-skinny has the command, and not what it starts.
with_server = needs("mlflow", "sqlalchemy", "alembic", "flask", "uvicorn", "fastapi")
with_wandb = needs("wandb")
with_tensorboard = needs("tensorboard")
# What rerail says of each ending. SIGKILL came from the program itself here: from nobody known.
CAUSES = {
    "kill": "killed-from-outside",
    "segfault": "native-segfault",
    "oom": "host-oom",
    "interrupt": "user-interrupt",
    "exception": "python-exception",
}
ENDINGS = list(CAUSES)


def environ(tmp_path: Path) -> dict[str, str]:
    left_out = ("MLFLOW_", "WANDB_", "RERAIL_", "GIT_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(left_out)}
    own = {"HOME": str(tmp_path), "MLFLOW_ALLOW_FILE_STORE": "true", "WANDB_SILENT": "true"}
    return {**kept, **own, "MPLCONFIGDIR": str(tmp_path)}


def run(
    tmp_path: Path,
    tracker: str,
    ending: str,
    *options: str,
    more: tuple[str, ...] = (),
    **variables: str,
) -> str:
    """Under rerail; what it said at the end."""
    with ExitStack() as stack:
        group = []
        if ending == "oom":
            folder = stack.enter_context(small_memory_group("trackers", 600 << 20))
            group = [str(folder / "cgroup.procs")]
        words = [sys.executable, "-m", "rerail", "run", "--home", str(tmp_path / "home"), *options]
        words += ["--", sys.executable, str(PROGRAM), tracker, ending, *group, *more]
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env={**environ(tmp_path), **variables},
            capture_output=True,
            text=True,
            timeout=GUARD_SECONDS,
        )
    assert done.returncode != 0
    return done.stderr


def events(tmp_path: Path) -> list[dict[str, Any]]:
    """What the closing process wrote down; it may be at work after `rerail run` has ended."""
    (folder,) = (tmp_path / "home" / "runs").iterdir()
    until = subprocess.run(
        [sys.executable, "-c", _WAIT, str(folder / "events.jsonl")], timeout=GUARD_SECONDS
    )
    assert until.returncode == 0
    return [event.data for event in RunFolder(folder).events() if event.kind == "tracker"]


# Waits for the event itself, in a process that the test's guard can end.
_WAIT = """
import pathlib, sys, time
while '"kind":"tracker"' not in pathlib.Path(sys.argv[1]).read_text():
    time.sleep(0.05)
"""


def mlflow_runs(tmp_path: Path, uri: str, experiment: str) -> dict[str, dict[str, Any]]:
    """By name: status, tags and artifacts, as MLflow's own client reads them."""
    code = (
        "import json, sys, mlflow\n"
        "client = mlflow.MlflowClient(sys.argv[1])\n"
        "print(json.dumps({r.info.run_name: {'status': r.info.status, 'tags': r.data.tags,"
        " 'files': [f.path for f in client.list_artifacts(r.info.run_id, 'rerail')]}"
        " for r in client.search_runs([client.get_experiment_by_name(sys.argv[2])"
        ".experiment_id])}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, uri, experiment],
        cwd=tmp_path,
        env=environ(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=GUARD_SECONDS,
    )
    return dict(json.loads(found.stdout.splitlines()[-1]))


def store_in(tmp_path: Path, store: str) -> str:
    return "sqlite:///runs.db" if store == "sqlite" else f"file:{tmp_path / 'mlruns'}"


def check_mlflow(
    tmp_path: Path, tracker: str, ending: str, uri: str, experiment: str = "Default"
) -> None:
    where = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_EXPERIMENT_NAME": experiment}
    run(tmp_path, tracker, ending, **where)
    (event,) = events(tmp_path)
    expected = "KILLED" if ending == "interrupt" else "FAILED"
    assert event.get("did") == expected, event
    found = mlflow_runs(tmp_path, uri, experiment)
    dead = found.pop("dies")
    assert dead["status"] == expected
    assert dead["tags"]["rerail.cause"] == CAUSES[ending]
    assert dead["tags"]["rerail.headline"]
    assert dead["files"] == ["rerail/report.html", "rerail/report.md"]
    (other,) = found.values()  # a run that ended before is left alone
    assert not any(name.startswith("rerail") for name in other["tags"])
    assert other["status"] == ("FAILED" if tracker == "mlflow-with" else "FINISHED")


@with_mlflow
def test_mlflow_after_sigkill(tmp_path: Path) -> None:
    check_mlflow(tmp_path, "mlflow", "kill", store_in(tmp_path, "file"))


@with_database
@pytest.mark.slow
@pytest.mark.parametrize("store", ["file", "sqlite"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_mlflow_after_each_ending(tmp_path: Path, ending: str, store: str) -> None:
    check_mlflow(tmp_path, "mlflow", ending, store_in(tmp_path, store))


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real one, with a database behind it and the artifacts of all runs at its side."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--backend-store-uri", "sqlite:///runs.db", "--artifacts-destination", "artifacts"),
        ],
        cwd=folder,
        env=environ(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    uri = f"http://127.0.0.1:{port}"
    until = time.monotonic() + GUARD_SECONDS
    try:
        while True:
            assert server.poll() is None and time.monotonic() < until, "it did not start"
            try:
                with urllib.request.urlopen(f"{uri}/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.2)
        yield uri
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@with_server
@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_mlflow_server_after_each_ending(tmp_path: Path, ending: str, mlflow_server: str) -> None:
    check_mlflow(tmp_path, "mlflow", ending, mlflow_server, experiment=ending)


@with_server
@pytest.mark.slow
@pytest.mark.parametrize(("ending", "status"), [("kill", "RUNNING"), ("exception", "FINISHED")])
def test_mlflow_server_without_rerail(
    tmp_path: Path, ending: str, status: str, mlflow_server: str
) -> None:
    """The other side of the table in docs/trackers.md."""
    where = {"MLFLOW_TRACKING_URI": mlflow_server, "MLFLOW_EXPERIMENT_NAME": f"{ending} alone"}
    run(tmp_path, "mlflow", ending, "--no-trackers", **where)
    dead = mlflow_runs(tmp_path, mlflow_server, f"{ending} alone")["dies"]
    assert dead["status"] == status and not dead["files"]


@with_mlflow
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["interrupt", "exception", "kill"])
def test_mlflow_with_a_context(tmp_path: Path, ending: str) -> None:
    check_mlflow(tmp_path, "mlflow-with", ending, store_in(tmp_path, "file"))


@with_mlflow
@pytest.mark.slow
def test_no_trackers(tmp_path: Path) -> None:
    uri = store_in(tmp_path, "file")
    said = run(tmp_path, "mlflow", "kill", "--no-trackers", MLFLOW_TRACKING_URI=uri)
    assert "MLflow" not in said
    dead = mlflow_runs(tmp_path, uri, "Default")["dies"]
    assert dead["status"] == "RUNNING" and not dead["files"]


@pytest.fixture
def server() -> Iterator[Told]:
    with wandb_server() as told:
        yield told


def sync(tmp_path: Path, server: Told) -> subprocess.CompletedProcess[str]:
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    login = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY, "WANDB_SILENT": "false"}
    return subprocess.run(
        [sys.executable, "-m", "wandb", "sync", str(folder)],
        cwd=tmp_path,
        env={**environ(tmp_path), **login},
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
    )


def check_wandb(tmp_path: Path, ending: str, server: Told) -> None:
    run(tmp_path, "wandb", ending)
    (event,) = events(tmp_path)
    expected = {"interrupt": 255, "segfault": 1, "kill": 1, "oom": 1, "exception": 1}[ending]
    assert f"(exit code {expected})" in event.get("did", ""), event
    done = sync(tmp_path, server)
    assert "Finished syncing" in done.stderr + done.stdout
    assert server.run.exit_code == expected
    check_told(server, ending)


def check_told(server: Told, ending: str) -> None:
    assert server.run.state == "failed"
    assert server.run.summary["rerail"]["cause"] == CAUSES[ending]
    assert server.run.summary["rerail"]["headline"]
    assert server.run.files["rerail/report.md"].startswith(b"# ")


@with_wandb
def test_wandb_after_sigkill(tmp_path: Path, server: Told) -> None:
    check_wandb(tmp_path, "kill", server)


@with_wandb
@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_wandb_after_each_ending(tmp_path: Path, ending: str, server: Told) -> None:
    check_wandb(tmp_path, ending, server)


@with_wandb
@pytest.mark.slow
def test_wandb_without_rerail_cannot_be_synced(tmp_path: Path, server: Told) -> None:
    """The other side of the table in docs/trackers.md."""
    run(tmp_path, "wandb", "kill", "--no-trackers")
    done = sync(tmp_path, server)
    assert "Failed to read" in done.stderr + done.stdout
    assert not server.runs


def run_online(
    tmp_path: Path, ending: str, server: Told, *options: str, more: tuple[str, ...] = ()
) -> str:
    login = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY}
    return run(tmp_path, "wandb-online", ending, *options, more=more, **login)


def check_online(
    tmp_path: Path, ending: str, server: Told, more: tuple[str, ...] = ()
) -> dict[str, Any]:
    run_online(tmp_path, ending, server, more=more)
    (event,) = events(tmp_path)
    assert event.get("did", "").startswith("failed"), event
    check_told(server, ending)
    # What the program has told of itself is as it was.
    assert server.run.display_name == "its own name" and len(server.run.history) == 5
    assert server.run.summary["loss"] == 0.2 and server.run.summary["_step"] == 4
    config = json.loads(server.run.config)
    assert config["rate"]["value"] == 0.1 and config["_wandb"]["value"]["python_version"]
    return event


@with_wandb
def test_wandb_online_after_sigkill(tmp_path: Path, server: Told) -> None:
    check_online(tmp_path, "kill", server)
    assert server.run.states == ["running", "failed"]


@with_wandb
@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_wandb_online_after_each_ending(tmp_path: Path, ending: str, server: Told) -> None:
    check_online(tmp_path, ending, server)


@with_wandb
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["kill", "segfault"])
def test_wandb_online_of_a_server_that_takes_no_state(
    tmp_path: Path, ending: str, server: Told
) -> None:
    """The run is taken up and ended, which W&B's client could do at all times."""
    server.can_update_state = False
    event = check_online(tmp_path, ending, server)
    assert "(exit code 1)" in event["did"] and server.run.exit_code == 1


@with_wandb
@pytest.mark.slow
def test_wandb_online_that_was_finished_while_an_exception_passed(
    tmp_path: Path, server: Told
) -> None:
    """`finally: wandb.finish()` tells W&B that all went well."""
    check_online(tmp_path, "exception", server, more=("finally",))
    assert server.run.states[:2] == ["running", "finished"] and server.run.exit_code == 1


@with_wandb
@pytest.mark.slow
def test_wandb_online_that_cannot_be_closed(tmp_path: Path, server: Told) -> None:
    server.can_update_state = server.can_resume = False
    run_online(tmp_path, "kill", server)
    (event,) = events(tmp_path)
    assert event["why"].startswith("it stays running ("), event
    assert server.run.summary["rerail"]["cause"] == CAUSES["kill"]


@with_wandb
@pytest.mark.slow
def test_wandb_online_without_rerail_stays_running(tmp_path: Path, server: Told) -> None:
    """The other side of the table in docs/trackers.md."""
    run_online(tmp_path, "kill", server, "--no-trackers")
    assert server.run.states == ["running"] and "rerail" not in server.run.summary


@with_tensorboard
@pytest.mark.parametrize("ending", ["kill", "exception"])
def test_tensorboard_has_the_cause_as_text(tmp_path: Path, ending: str) -> None:
    said = run(tmp_path, "tensorboard", ending)
    (event,) = events(tmp_path)
    assert event["did"] == "told", said
    ours = [path for path in (tmp_path / "logs/first").iterdir() if path.suffix == ".rerail"]
    assert len(ours) == 1 and len(list((tmp_path / "logs/first").iterdir())) == 2
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(tmp_path / "logs/first"))
    reader.Reload()
    (cause,) = reader.Tensors("rerail/cause")
    assert cause.tensor_proto.string_val == [CAUSES[ending].encode()]
    assert {"rerail/headline", "rerail/report"} <= set(reader.Tags()["tensors"])


@with_tensorboard
def test_what_is_secret_stays_at_home(tmp_path: Path) -> None:
    run(tmp_path, "tensorboard", "secret")
    assert events(tmp_path)
    (ours,) = (tmp_path / "logs/first").glob("*.rerail")
    octets = ours.read_bytes()
    assert b"cannot log in with --password" in octets and b"hunter2" not in octets
