"""The nodes of a job as lines that a person reads below the answer.

In: `job` of the contract's document. Out: a line for each node, the worst first, within the width.
"""

from __future__ import annotations

from typing import Any

from rerail.jobs.words import ranks_in_words
from rerail.wording import cut, seconds_in_words

_MOST_NODES = 12
_ORDER = ("vanished", "failed", "running", "ended")
_WRONG_CLOCK_SECONDS = 2.0


def node_table(job: dict[str, Any], width: int = 80) -> str:
    first = (job.get("first") or {}).get("node")
    nodes = sorted(job["nodes"], key=lambda each: (each["node"] != first, _place(each["state"])))
    lines = [cut(_line(each), width) for each in nodes[:_MOST_NODES]]
    if len(nodes) > _MOST_NODES:
        lines.append(f"  … and {len(nodes) - _MOST_NODES} more nodes (--json has them all)")
    return "\n".join([f"nodes of {cut(job['place'], width - 10)}", *lines])


def _place(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _line(node: dict[str, Any]) -> str:
    parts = [node["state"]]
    if node["ranks"]:
        parts.append(ranks_in_words(node["ranks"]))
    if node["step"]:
        parts.append(f"step {node['step']:,}")
    if node["last_seen_seconds"] is not None:
        verb = "at" if node["state"] in ("ended", "failed") else "last seen at"
        parts.append(f"{verb} {node['last_seen_seconds']:.1f} s")
    if node["lost_link"]:
        parts.append(f"{node['lost_link']} down")
    if (spread := node["offset_uncertainty_seconds"]) and spread >= 0.01:
        parts.append(f"± {seconds_in_words(spread)}")
    if abs(ahead := node["clock_ahead_seconds"] or 0.0) >= _WRONG_CLOCK_SECONDS:
        side = "ahead" if ahead > 0 else "behind"
        parts.append(f"clock {seconds_in_words(abs(ahead))} {side}")
    return f"  {node['node']:<12} {', '.join(parts)}"
