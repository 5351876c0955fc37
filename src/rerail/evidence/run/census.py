"""What leaks, and who holds it?

In: the censuses of a process whose memory grew, and the growth that the vitals show. Out: one
`leak` observation, of the process that grew most. Promises: a holder is named only if what is new
in it explains the growth, and nothing else that was found explains it as well; otherwise the
observation says what grew, or that it is not known. docs/design/what-leaks.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from rerail.evidence.run.material import RecordedRun
from rerail.evidence.run.memory import leaking_pids, limit_that_was_reached
from rerail.records import Census, Container, Observation, TensorGroup
from rerail.wording import bytes_in_words, role_in_words

# What a container would have to explain of the growth: the rest is what allocators add, and what
# elements refer to that is not memory of Python. An estimate far above the growth is none.
_LEAST_SHARE, _MOST_SHARE = 0.5, 2.5
# Of what hangs on a graph only the tensors that had a name in Python once can be seen.
_LEAST_GRAPH_SHARE = 0.3
_RIVAL_SHARE = 0.5  # a second container with this share of the first's makes it uncertain
_LEAST_GROWTH_BYTES = 24 << 20
_ALL = 0.99
_HELD_PER_STEP = 0.9  # objects kept with each step: a chain keeps one at least
_LONGEST_NAME = 120


def read_leaks(run: RecordedRun) -> list[Observation]:
    grew = leaking_pids(run)
    found = []
    for censuses in run.censuses:
        if len(censuses) < 2:
            continue
        first, last = censuses[0], censuses[-1]
        growth = last.used_bytes - first.used_bytes
        if growth < _LEAST_GROWTH_BYTES or last.step <= first.step:
            continue
        if last.is_worker and is_copied(first, last):
            found.append((growth, _copied(run, first, last)))
        elif last.pid in grew:
            found.append((growth, _leak(run, censuses)))
    found.sort(key=lambda item: -item[0])
    return [observation for _, observation in found[:1]]


def read_copied_growth(run: RecordedRun) -> list[Observation]:
    """`memory-growth` of workers by pages that they had shared, which no resident size shows."""
    grown = []
    for censuses in run.censuses:
        first, last = censuses[0], censuses[-1]
        growth = last.used_bytes - first.used_bytes
        if last.is_worker and growth >= _LEAST_GROWTH_BYTES and is_copied(first, last):
            # The first census was taken when it had begun to grow.
            floor = first.used_bytes if first.floor_bytes is None else first.floor_bytes
            grown.append((last.used_bytes - floor, first, last))
    if not grown:
        return []
    growth, first, last = max(grown, key=lambda item: item[0])
    per_step = (last.used_bytes - first.used_bytes) / (last.step - first.step)
    data: dict[str, Any] = {
        "shape": "leak",
        "pid": last.pid,
        "role": "loader-worker",
        "rise_bytes": growth,
        "from_bytes": last.used_bytes - growth,
        "to_bytes": last.used_bytes,
        "processes": len(grown),
        "bytes_per_step": per_step,
        "steps": last.step,
        "is_copied": True,
        "t_seconds": last.t_seconds,
    }
    text = (
        f"A DataLoader worker (pid {last.pid}) came to hold {bytes_in_words(growth)} for itself"
        f" that it had shared, {bytes_in_words(per_step)} with every batch that it loaded"
    )
    if len(grown) > 1:
        text += f"; {len(grown)} workers did"
    limit = limit_that_was_reached(run, sum(item[0] for item in grown))
    if limit is not None:
        data["reached_limit_bytes"] = limit
        text += f", until memory was at its limit of {bytes_in_words(limit)}"
    return [Observation("memory-growth", text + ".", f"census:{last.pid}", data)]


def is_copied(first: Census, last: Census) -> bool:
    """Whether a worker's own memory grew because pages that it shared became its own."""
    if first.resident_bytes is None or last.resident_bytes is None:
        return False
    growth = last.used_bytes - first.used_bytes
    return last.resident_bytes - first.resident_bytes < 0.3 * growth


def _leak(run: RecordedRun, censuses: Sequence[Census]) -> Observation:
    first, last = censuses[0], censuses[-1]
    tensors = _tensor_growth(censuses)
    candidates = _candidates(last, _asked_for(first, last), tensors.bytes if tensors else 0)
    holder = _certain(candidates)
    if holder is not None:
        data = {**_what(holder, tensors), "holder": _holder(run, holder)}
        return _observation(run, first, last, data)
    data = _without_holder(censuses, candidates, tensors)
    return _observation(run, first, last, data)


class _TensorGrowth:
    """How much more memory tensors take than in the first census that saw them all."""

    def __init__(self, first: Census, last: Census, steps: int) -> None:
        passed = max(last.step - first.step, 1)
        grown = (last.tensor_bytes or 0) - (first.tensor_bytes or 0)
        self.bytes = int(grown * steps / passed)
        graph = (last.graph_tensor_bytes or 0) - (first.graph_tensor_bytes or 0)
        self.has_graph = graph >= 0.25 * grown > 0
        self.since_step = first.step
        before = {_key(group): group for group in first.tensors}
        new = [(_more(group, before.get(_key(group))), group) for group in last.tensors]
        if self.has_graph:
            new = [item for item in new if item[1].has_graph]
        self.group: TensorGroup | None
        (self.count, _), self.group = max(new, key=lambda item: item[0][1], default=((0, 0), None))

    @property
    def told(self) -> dict[str, Any]:
        assert self.group is not None
        what = _tensors_in_words(self.count, self.group)
        return {"what": what, "count": self.count, "since_step": self.since_step}


def _key(group: TensorGroup) -> tuple[tuple[int, ...], str, bool]:
    return tuple(group.shape), group.dtype, group.has_graph


def _more(group: TensorGroup, before: TensorGroup | None) -> tuple[int, int]:
    if before is None:
        return group.count, group.bytes
    return group.count - before.count, group.bytes - before.bytes


def _tensor_growth(censuses: Sequence[Census]) -> _TensorGrowth | None:
    whole = [each for each in censuses if (each.seen_share or 0) >= _ALL]
    if len(whole) < 2 or whole[-1].step <= whole[0].step:
        return None
    return _TensorGrowth(whole[0], whole[-1], censuses[-1].step - censuses[0].step)


def _asked_for(first: Census, last: Census) -> float:
    """The growth without what the kernel adds: a huge page is 2 MiB, and 1 MiB may lie on it.

    Small objects of Python lie outside the C heap, so that its growth can be far too little.
    """
    growth = last.used_bytes - first.used_bytes
    if first.heap_bytes is None or last.heap_bytes is None:
        return growth
    return min(growth, max(last.heap_bytes - first.heap_bytes, 0.5 * growth))


def _candidates(last: Census, growth: float, tensor_bytes: int) -> list[tuple[float, Container]]:
    """(share of the growth that it explains, container), those that may hold it first."""
    found = []
    for container in [*last.grown, *last.unnamed]:
        explained = (container.length - container.before) * container.bytes_each
        least = _LEAST_SHARE
        if container.graphs and 2 * container.graphs >= container.looked_at:
            explained, least = max(explained, tensor_bytes), _LEAST_GRAPH_SHARE
        share = explained / growth
        if least <= share <= _MOST_SHARE:
            found.append((share, container))
    return sorted(found, key=lambda item: -item[0])


def _certain(candidates: list[tuple[float, Container]]) -> Container | None:
    if not candidates or candidates[0][1].name is None:
        return None
    if len(candidates) > 1 and candidates[1][0] >= _RIVAL_SHARE * candidates[0][0]:
        return None
    return candidates[0][1]


def _what(container: Container, tensors: _TensorGrowth | None) -> dict[str, Any]:
    new = container.length - container.before
    if container.kind == "buffer":
        return {"what": f"an array of {bytes_in_words(container.length)}"}
    if container.graphs and tensors is not None and tensors.has_graph and tensors.group:
        return tensors.told
    return {"what": _elements_in_words(container), "count": new}


def _elements_in_words(container: Container) -> str:
    new = container.length - container.before
    holds = container.holds[:_LONGEST_NAME] or "elements"
    if not holds.startswith(("tensors", "arrays")):
        holds = f"elements ({holds}), {bytes_in_words(container.bytes_each)} each"
    elif container.graphs:
        holds += " with a graph"
    return f"{new:,} {holds}"


def _tensors_in_words(count: int, group: TensorGroup) -> str:
    shape = "(" + ", ".join(map(str, group.shape)) + ")"
    return f"{count:,} tensors {shape} {group.dtype}" + (" with a graph" if group.has_graph else "")


def _without_holder(
    censuses: Sequence[Census],
    candidates: list[tuple[float, Container]],
    tensors: _TensorGrowth | None,
) -> dict[str, Any]:
    growth = censuses[-1].used_bytes - censuses[0].used_bytes
    if tensors is not None and tensors.group and tensors.bytes >= _LEAST_SHARE * growth:
        return tensors.told
    if candidates:
        return {"what": _elements_in_words(candidates[0][1])}
    if _is_native(censuses):
        return {
            "what": f"{bytes_in_words(growth)} of native memory, outside Python",
            "native_bytes": growth,
        }
    return {}


def _is_native(censuses: Sequence[Census]) -> bool:
    """Nothing of Python's kept more with the steps: no container, no chain of objects, no tensor.

    Compared with the last but one that saw all objects: the first census itself brings a few
    hundred objects of ours.
    """
    whole = [each for each in censuses if (each.seen_share or 0) >= _ALL]
    if len(whole) < 2 or whole[-1] is not censuses[-1] or not whole[-1].walk_is_complete:
        return False
    before, last = whole[-2:]
    if before.tracked is None or last.tracked is None:
        return False
    growth = last.used_bytes - before.used_bytes
    kept = sum((c.length - c.before) * c.bytes_each for c in [*last.grown, *last.unnamed])
    tensor_bytes = (last.tensor_bytes or 0) - (before.tensor_bytes or 0)
    heap = (last.heap_bytes or 0) - (before.heap_bytes or 0)
    return (
        growth > 0
        and kept + tensor_bytes < 0.1 * growth
        and heap >= _LEAST_SHARE * growth
        and last.tracked - before.tracked < _HELD_PER_STEP * (last.step - before.step)
    )


def _copied(run: RecordedRun, first: Census, last: Census) -> Observation:
    """Reading a Python object writes its reference count, and so copies the page it is on."""
    growth = last.used_bytes - first.used_bytes
    able = [c for c in last.read if c.name and c.length * c.bytes_each >= _LEAST_SHARE * growth]
    data: dict[str, Any] = {
        "what": f"{bytes_in_words(growth)} of pages copied on write in a DataLoader worker",
        "is_copied": True,
    }
    if len(able) == 1:
        data["holder"] = _holder(run, able[0])
    return _observation(run, first, last, data)


def _holder(run: RecordedRun, container: Container) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": (container.name or "")[:_LONGEST_NAME],
        "kind": "lru_cache" if container.of == "lru_cache" else container.kind,
    }
    if container.kind == "buffer":
        told["kind"] = "array"
    for name in ("of", "owner", "function", "line", "class_name", "path"):
        value = getattr(container, name)
        if value is not None:
            told[name] = value[:_LONGEST_NAME] if isinstance(value, str) else value
    if container.file:
        told["file"] = _short(container.file, run.info.cwd)
    return told


def _short(path: str, cwd: str) -> str:
    """As the program's author would write it: from the working folder, else the name alone."""
    try:
        return str(PurePosixPath(path).relative_to(cwd))[:_LONGEST_NAME]
    except ValueError:
        return PurePosixPath(path).name[:_LONGEST_NAME]


def holder_in_words(holder: dict[str, Any]) -> str:
    """ "the list `losses` (train() in leak.py:31)" """
    kinds = {"lru_cache": "the lru_cache of"}
    text = f"{kinds.get(holder['kind'], 'the ' + holder['kind'])} `{holder['name']}`"
    if holder.get("owner") and holder["name"].startswith("self."):
        text += f" of class {holder['owner']}"
    place = holder.get("file", "")
    place += f":{holder['line']}" if place and holder.get("line") else ""
    if holder.get("function") and place:
        place = f"{holder['function']}() in {place}"
    return f"{text} ({place})" if place else text


def _observation(
    run: RecordedRun, first: Census, last: Census, told: dict[str, Any]
) -> Observation:
    process = run.by_key.get(f"{last.pid}-{last.start_ticks}")
    role = process.role if process else "loader-worker" if last.is_worker else "main"
    unit = "batch" if last.is_worker else "step"
    growth = last.used_bytes - first.used_bytes
    steps = last.step - first.step
    data = {
        "pid": last.pid,
        "role": role,
        "since_step": first.step,
        "step": last.step,
        "bytes": growth,
        "bytes_per_step": growth / steps,
        "t_seconds": last.t_seconds,
        **told,
    }
    who = f"{role_in_words(role)} (pid {last.pid})"
    what, holder = told.get("what"), told.get("holder")
    if told.get("is_copied"):
        text = f"In {who}, {bytes_in_words(growth)} of memory that it shared became its own "
        text += f"between its {unit} {first.step} and {last.step}, page by page"
        text += f", as it read {holder_in_words(holder)}" if holder else ""
    elif holder and holder["kind"] == "array":
        text = f"In {who}, {holder_in_words(holder)} grew to {what}"
    elif what:
        verb = "is" if "native_bytes" in told else "are"
        comma = "," if "native_bytes" in told else ""
        text = f"In {who}, {what}{comma} {verb} new since {unit} {data['since_step']}"
        text += f", held by {holder_in_words(holder)}" if holder else ""
    else:
        text = f"In {who} {bytes_in_words(growth)} are new since {unit} {first.step}"
        text += "; what they are was not found"
    return Observation("leak", text + ".", f"census:{last.pid}:{last.step}", data)
