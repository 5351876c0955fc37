"""One recorded launcher on every node of a Ray cluster.

    python docs/recipes/ray_nodes.py --job train-1 --job-dir /shared/rerail-jobs --nodes 2 \
        -- torchrun --nnodes 2 --node-rank {rank} --master-addr {head} train.py
    rerail explain /shared/rerail-jobs/train-1

`runtime_env` brings rerail to the nodes: RERAIL_REQUIREMENT says from where, and is empty if it is
there already. {rank}, {head} and {nodes} are filled in on each node.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def address() -> str:
    return ray.util.get_node_ip_address()


def launch(command: list[str], job: str, place: str, name: str) -> int:
    run = [sys.executable, "-m", "rerail", "run", "--job", job, "--job-dir", place, "--"]
    environ = {**os.environ, "RERAIL_NODE": name}
    return subprocess.run([*run, *command], env=environ).returncode


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--job", required=True)
    arguments.add_argument("--job-dir", required=True)
    arguments.add_argument("--nodes", type=int, required=True)
    arguments.add_argument("command", nargs=argparse.REMAINDER)
    asked = arguments.parse_args()
    words = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    requirement = os.environ.get("RERAIL_REQUIREMENT", "rerail")
    ray.init(address="auto", runtime_env={"pip": [requirement]} if requirement else {})
    group = placement_group([{"CPU": 1}] * asked.nodes, strategy="STRICT_SPREAD")
    ray.get(group.ready())

    def on(rank: int) -> PlacementGroupSchedulingStrategy:
        return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)

    find = ray.remote(num_cpus=1, max_retries=0)(address)
    start = ray.remote(num_cpus=1, max_retries=0)(launch)
    head = ray.get(find.options(scheduling_strategy=on(0)).remote())
    tasks = []
    for rank in range(asked.nodes):
        filled = [word.format(rank=rank, head=head, nodes=asked.nodes) for word in words]
        options = start.options(scheduling_strategy=on(rank))
        tasks.append(options.remote(filled, asked.job, asked.job_dir, f"node-{rank}"))
    return max(ray.get(tasks))


if __name__ == "__main__":
    sys.exit(main())
