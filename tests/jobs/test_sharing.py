"""Real runs that are nodes of a job: in a shared folder, and in an object store on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RERAIL = [sys.executable, "-m", "rerail"]


def node(
    folder: Path, name: str, job_dir: str, *command: str, nnodes: int = 2, **environ: str
) -> subprocess.Popen[str]:
    options = ["--home", str(folder / name), "--job", "j", "--job-dir", job_dir]
    return subprocess.Popen(
        [*RERAIL, "run", *options, "--nnodes", str(nnodes), "--no-explain", "--", *command],
        env={**os.environ, "RERAIL_NODE": name, "RERAIL_JOB_BEAT": "0.2", **environ},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def explain(job: str, folder: Path, **environ: str) -> dict[str, Any]:
    done = subprocess.run(
        [*RERAIL, "explain", "--json", job],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=folder,
        env={**os.environ, **environ},
    )
    assert done.returncode in (0, 1), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


WAITS = "import sys; sys.stdin = open(sys.argv[1]); sys.stdin.read(); sys.exit(int(sys.argv[2]))"


def test_nodes_in_a_shared_folder_are_read_as_one(tmp_path: Path) -> None:
    """Node b raises; node a ends well. The record stays in each node's own store as ever."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shared = str(tmp_path / "shared")
    first = node(tmp_path, "a", shared, sys.executable, "-c", WAITS, str(gate), "0")
    second = node(tmp_path, "b", shared, sys.executable, "-c", "import json; json.loads('{')")
    _, said = second.communicate(timeout=180)
    assert second.returncode == 1
    assert f"rerail explain {shared}/j" in said
    gate.open("w").close()
    assert first.wait(180) == 0
    document = explain(f"{shared}/j", tmp_path)
    assert document["headline"].startswith("Node b: json.decoder.JSONDecodeError")
    states = {each["node"]: each["state"] for each in document["job"]["nodes"]}
    assert states == {"a": "ended", "b": "failed"}
    assert document["facts"]["node"] == "b"
    assert explain("j", tmp_path, RERAIL_JOB_DIR=shared)["headline"] == document["headline"]
    copies = list(Path(shared).glob("j/*/runs/*/*"))
    assert {"run.json", "events.jsonl", "output.log"} <= {path.name for path in copies}
    assert "private.jsonl" not in {path.name for path in copies}
    assert list((tmp_path / "a/runs").glob("*/private.jsonl"))


def test_a_node_that_never_came(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    words = (
        "raise RuntimeError('Timed out after 601 seconds waiting for clients. 1/2 clients joined.')"
    )
    alone = node(tmp_path, "a", shared, sys.executable, "-c", words, SLURM_NODEID="0")
    alone.communicate(timeout=180)
    document = explain(f"{shared}/j", tmp_path)
    assert document["job"]["expected_nodes"] == 2
    assert document["headline"] == "Node 1 never came: of 2 only 1 joined (a)."
    assert document["causes"][0]["id"] == "node-lost"


@pytest.mark.thorough
def test_a_place_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    run = node(tmp_path, "a", str(tmp_path / "file" / "x"), sys.executable, "-c", "print(1)")
    _, said = run.communicate(timeout=180)
    assert run.returncode == 0
    assert "does not have all of this run yet" in said
    assert len(list((tmp_path / "a/runs").iterdir())) == 1


def test_nothing_is_shared_unless_a_job_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RERAIL, "run", "--home", "home", "--", sys.executable, "-c", "print(1)"],
        capture_output=True,
        timeout=180,
        cwd=tmp_path,
        env={**os.environ, "SLURM_JOB_ID": "1", "RERAIL_JOB_DIR": str(tmp_path / "shared")},
    )
    assert done.returncode == 0
    assert not (tmp_path / "shared").exists() and not (tmp_path / "home/jobs").exists()


def test_a_job_dir_without_a_job_says_what_to_type(tmp_path: Path) -> None:
    done = subprocess.run(
        [*RERAIL, "run", "--job-dir", "x", "--", "true"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2 and "--job auto" in done.stderr


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """A real server of the S3 protocol, on loopback."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    try:
        host, port = server.get_host_and_port()
        environ = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        import s3fs

        system = s3fs.S3FileSystem(
            key="testing", secret="testing", endpoint_url=environ["AWS_ENDPOINT_URL"]
        )
        system.mkdir("records")
        yield environ
    finally:
        server.stop()


@pytest.mark.thorough
def test_nodes_in_an_object_store_are_read_as_one(tmp_path: Path, bucket: dict[str, str]) -> None:
    place = "s3://records/team"
    first = node(tmp_path, "a", place, sys.executable, "-c", "print(1)", **bucket)
    second = node(tmp_path, "b", place, sys.executable, "-c", "1 / 0", **bucket)
    assert [first.wait(180), second.wait(180)] == [0, 1]
    document = explain("s3://records/team/j", tmp_path, **bucket)
    assert document["headline"].startswith("Node b: ZeroDivisionError: division by zero")
    assert {each["state"] for each in document["job"]["nodes"]} == {"ended", "failed"}
