"""The recipes of docs/recipes, run as they are written as far as one machine allows it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from slurm_cluster import Slurm

from rerail.cli.run import command as run_command

ROOT = Path(__file__).parent.parent.parent
RECIPES = ROOT / "docs" / "recipes"
TRAINS = ROOT / "tests" / "programs" / "job_trains.py"
BIN = Path(sys.executable).parent


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """With `rerail` and `torchrun` on the PATH, as on a cluster; both from this environment."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, module in (("rerail", "rerail"), ("torchrun", "torch.distributed.run")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (tools / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "RERAIL_JOB_DIR": str(tmp_path / "records"),
        "RERAIL_JOB_BEAT": "0.5",
        "MASTER_PORT": free_port(),
        "OMP_NUM_THREADS": "1",
    }


def explain(place: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "explain", "--json", str(place)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (0, 1), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.slow
@pytest.mark.torch
def test_the_sbatch_file_on_a_real_slurm(tmp_path: Path, environ: dict[str, str]) -> None:
    pytest.importorskip("torch")
    cluster = tmp_path / "slurm"
    cluster.mkdir()
    with Slurm(cluster) as slurm:
        slurm.environ |= {**environ, "SLURM_CONF": slurm.environ["SLURM_CONF"]}
        slurm.environ["MASTER"] = "127.0.0.1"  # the nodes n1 and n2 have no names of their own
        asked = ("--at", "15", "--does", "raise", "--only", "1")
        done = slurm.do(
            *("sbatch", "--wait", str(RECIPES / "slurm.sbatch"), str(TRAINS), *asked), cwd=tmp_path
        )
        printed = "".join(path.read_text() for path in tmp_path.glob("slurm-*.out"))
        assert done.returncode != 0, printed
    (place,) = (tmp_path / "records").iterdir()
    document = explain(place)
    nodes = {each["node"]: each for each in document["job"]["nodes"]}
    assert set(nodes) == {"n1", "n2"}, printed
    failed = next(name for name, each in nodes.items() if 1 in each["ranks"])
    assert document["job"]["first"]["node"] == failed
    assert "ValueError: rank 1 has a bad batch at step 15" in document["headline"]
    assert document["headline"].startswith(f"Node {failed} (rank 1): ")


@pytest.mark.slow
@pytest.mark.torch
def test_the_ssh_script_with_a_shell_for_ssh(tmp_path: Path, environ: dict[str, str]) -> None:
    pytest.importorskip("torch")
    shell = tmp_path / "bin" / "not-ssh"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$1"\n')
    shell.chmod(0o755)
    done = subprocess.run(
        [str(RECIPES / "over-ssh.sh"), str(TRAINS), "--at", "15", "--does", "raise"],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**environ, "HOSTS": "a b", "SSH": "not-ssh", "JOB": "j", "MASTER_ADDR": "127.0.0.1"},
    )
    assert done.returncode != 0, done.stderr
    assert f"rerail explain {environ['RERAIL_JOB_DIR']}/j" in done.stderr
    document = explain(tmp_path / "records/j")
    assert document["headline"].startswith("Node b (rank 1): ValueError: rank 1 has a bad batch")


@pytest.mark.slow
def test_the_ray_recipe_on_a_cluster_of_two_nodes(tmp_path: Path, environ: dict[str, str]) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        words = "import sys; sys.exit(3 if sys.argv[1] == '1' else 0)"
        options = ["--job", "j", "--job-dir", str(tmp_path / "records"), "--nodes", "2", "--"]
        done = subprocess.run(
            [
                *(sys.executable, str(RECIPES / "ray_nodes.py"), *options),
                *(sys.executable, "-c", words, "{rank}"),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
            env={**environ, "RAY_ADDRESS": cluster.address, "RERAIL_REQUIREMENT": ""},
        )
    finally:
        cluster.shutdown()
    assert done.returncode == 3, done.stderr
    nodes = {
        each["node"]: each["state"] for each in explain(tmp_path / "records/j")["job"]["nodes"]
    }
    assert nodes == {"node-0": "ended", "node-1": "failed"}


def options_of_run() -> set[str]:
    return {
        name for each in run_command.params if isinstance(each, click.Option) for name in each.opts
    }


def test_the_manifest_is_what_kubernetes_takes_as_far_as_a_parser_can_tell() -> None:
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text())
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    spec = job["spec"]["template"]["spec"]
    assert service["metadata"]["name"] == spec["subdomain"]
    (init,), (train,) = spec["initContainers"], spec["containers"]
    volumes = {each["name"] for each in spec["volumes"]}
    mounted = {each["name"] for container in (init, train) for each in container["volumeMounts"]}
    assert mounted == volumes
    program, command, *arguments = train["command"]
    homes = {each["name"]: each.get("value", "") for each in init["env"]}
    assert program == f"{homes['UV_TOOL_BIN_DIR']}/rerail" and command == "run"
    assert {word for word in arguments if word.startswith("--")} - {"--"} <= options_of_run()
    assert job["spec"]["completionMode"] == "Indexed"


def test_shell_recipes_parse() -> None:
    for name in ("slurm.sbatch", "over-ssh.sh"):
        done = subprocess.run(["bash", "-n", str(RECIPES / name)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_line_that_installs_leaves_the_training_python_alone(tmp_path: Path) -> None:
    """`uv tool install` of the init container and the Dockerfile, with the Python that is here."""
    uv = shutil.which("uv") or str(BIN / "uv")
    if not Path(uv).exists():
        pytest.skip("no uv (make test installs it)")
    homes = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    done = subprocess.run(
        [uv, "tool", "install", "--python", sys.executable, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, **homes, "UV_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    asks = "import importlib.util as u; print(u.find_spec('rerail') is None)"
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    run = [str(tmp_path / "bin/rerail"), "run", "--home", str(tmp_path / "home"), "--"]
    ran = subprocess.run(
        [*run, python, "-I", "-c", asks], capture_output=True, text=True, timeout=180
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() in ("True", "False")
    assert list((tmp_path / "home/runs").glob("*/run.json"))


@pytest.mark.slow
def test_a_job_that_slurm_cancels_says_who_ended_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """SIGTERM, then a grace period: long enough for the last words, and for the record."""
    cluster = tmp_path / "slurm"
    cluster.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    script = "srun rerail run --job auto --home home-$SLURM_JOB_ID -- sleep 600"
    with Slurm(cluster) as slurm:
        slurm.environ |= {**environ, "SLURM_CONF": slurm.environ["SLURM_CONF"]}
        sent = slurm.do("sbatch", "--parsable", "--nodes=2", f"--wrap={script}", cwd=work)
        job = sent.stdout.strip()
        place = tmp_path / "records" / job
        until = time.monotonic() + 180
        while len(list(place.glob("*/*.beat.json"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        slurm.do("scancel", job)
        while len(list(place.glob("*/*.goodbye.json"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
    document = explain(place)
    assert {each["state"] for each in document["job"]["nodes"]} == {"failed"}
    assert document["causes"][0]["id"] == "scheduler-stopped"
    assert document["headline"].startswith("All 2 nodes were ended: The program slurmstepd ")
    assert "sent SIGTERM" in document["headline"]
