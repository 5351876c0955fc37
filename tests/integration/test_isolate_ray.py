"""On a Ray cluster of three nodes an investigation gives the answer that this machine gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rerail.experiments import IsolateOptions, investigate
from rerail.store import Store

DIES = str(Path(__file__).parent.parent / "programs" / "isolate_dies.py")

pytestmark = pytest.mark.slow  # three nodes take half a minute to start on a busy machine


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'rerail[ray]'")
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield ray
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_three_nodes_answer_as_one_machine_does(three_nodes: Any, tmp_path: Path) -> None:
    assert len([node for node in three_nodes.nodes() if node["Alive"]]) == 3
    answers = []
    for scheduler, jobs in (("local", 1), ("ray", 3)):
        document = investigate(
            [sys.executable, DIES],
            ["--mode good", "--colour blue"],
            Store(tmp_path / scheduler),
            IsolateOptions(
                scheduler=scheduler, jobs=jobs, max_trials=40, is_fresh=True, may_write=True
            ),
        )
        answers.append((document["status"], document["changes"], document["failure"]["cause"]))
        assert document["confidence"] >= 0.99
        assert all(trial["run"] for trial in document["trials"])
    assert answers[0] == answers[1] == ("confirmed", ["--mode good"], answers[0][2])
