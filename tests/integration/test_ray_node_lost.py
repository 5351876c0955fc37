"""A node of a Ray cluster is killed while it works: its trial or cell runs again elsewhere."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rerail.errors import RerailError
from rerail.experiments import IsolateOptions, investigate
from rerail.store import RunFolder, Store
from rerail.study import StudyOptions, load_study, run_study

PROGRAMS = Path(__file__).parent.parent / "programs"
pytestmark = pytest.mark.slow  # three nodes take half a minute to start on a busy machine


class Machines:
    """A head and two nodes, each a raylet with its own processes."""

    def __init__(self, cluster: Any) -> None:
        self._nodes = [cluster.add_node(num_cpus=1, object_store_memory=10**8) for _ in range(2)]
        self._is_over = threading.Event()
        self.killed: list[int] = []

    def kill_the_one_that_records(self, home: Path) -> threading.Thread:
        """Every process of the first of the two nodes that has a run in `home`, all at once."""

        def watch() -> None:
            while not self._is_over.wait(0.02):
                for node in self._nodes:
                    raylet = node.all_processes["raylet"][0].process.pid
                    if self._kill_if(psutil.Process(raylet), home):
                        return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        return thread

    def _kill_if(self, raylet: psutil.Process, home: Path) -> bool:
        try:
            below = raylet.children(recursive=True)
        except psutil.Error:
            return False
        if not commands_on_record(home) & {each.pid for each in below}:
            return False
        # Stopped first: none of them may see another one die, as on a machine that is gone.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for each in (raylet, *below):
                with contextlib.suppress(psutil.Error):
                    each.send_signal(number)
        self.killed += [each.pid for each in below]
        return True

    def close(self) -> None:
        self._is_over.set()


def commands_on_record(home: Path) -> set[int | None]:
    found = set()
    for path in home.glob("runs/*"):
        with contextlib.suppress(RerailError):
            info = RunFolder(path).info()
            if info.settings.get("label") != "[…]":  # what is written before secrets are known
                found.add(info.root_pid)
    return found - {None}


@pytest.fixture
def machines() -> Iterator[Machines]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rerail[ray]'")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    machines = Machines(cluster)
    try:
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield machines
    finally:
        machines.close()
        ray.shutdown()
        cluster.shutdown()


def test_an_investigation_repeats_the_trial_of_a_lost_node(
    machines: Machines, tmp_path: Path
) -> None:
    killer = machines.kill_the_one_that_records(tmp_path)
    document = investigate(
        [sys.executable, str(PROGRAMS / "isolate_dies.py"), "--until-seconds=1"],
        ["--mode good", "--colour blue"],
        Store(tmp_path),
        IsolateOptions(scheduler="ray", jobs=3, max_trials=40, is_fresh=True, may_write=True),
    )
    killer.join(10)
    assert machines.killed
    assert (document["status"], document["changes"]) == ("confirmed", ["--mode good"])
    assert document["confidence"] >= 0.99
    outcomes = [trial["outcome"] for trial in document["trials"]]
    assert outcomes.count("lost") == 1
    assert set(outcomes) <= {"lost", "crashed", "finished", "stopped"}  # no failure of the node's
    events = [path.read_text() for path in tmp_path.glob("runs/*/events.jsonl")]
    assert sum("it is run again elsewhere" in text for text in events) == 1


def test_a_study_repeats_the_cell_of_a_lost_node(machines: Machines, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, str(PROGRAMS / "study_train.py"), "--step-seconds=0.05"])
    (tmp_path / "s.toml").write_text(
        f"command = {json.dumps(command)}\n"
        'artifacts = ["weights/final.npz", "metrics.json"]\n'
        '[axes]\n"--lr" = [0.1, 0.2, 0.3, 0.4]\n'
    )
    killer = machines.kill_the_one_that_records(tmp_path / "home")
    study = load_study(tmp_path / "s.toml")
    states = run_study(study, Store(tmp_path / "home"), StudyOptions(scheduler="ray", jobs=3))
    killer.join(10)
    assert machines.killed
    assert [state.state for state in states.values()] == ["done"] * 4
    attempts = sorted(len(state.attempts) for state in states.values())
    assert attempts == [1, 1, 1, 2]
