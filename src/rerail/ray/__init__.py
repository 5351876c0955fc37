"""Ray: every worker recorded by one line, and a plain answer where an actor has died.

    import ray, rerail.ray

    ray.init(runtime_env=rerail.ray.runtime_env())

`runtime_env` makes each worker process of the job a recorded run in this folder's store; `explain`
says why one of them died, from its record. docs/ray.md has the rest. Nothing here imports Ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.ray.environment import runtime_env
    from rerail.ray.explaining import explain, runs

__all__ = ["explain", "runs", "runtime_env"]

__getattr__ = door(
    __name__, {"explain": "explaining", "runs": "explaining", "runtime_env": "environment"}
)
