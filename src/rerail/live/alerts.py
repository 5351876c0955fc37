"""What bodes ill in a run that is still going: the gravest first.

In: the parts of a view. Out: `Alert`s. Each is a fact with its numbers; none is a guess at a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rerail.live.machine import Gauge
from rerail.live.memory import Memory
from rerail.live.processes import ProcessLine
from rerail.live.progress import Loss
from rerail.records import Event
from rerail.wording import bytes_in_words, counted, duration_in_words, standing_in_words

AlertKind = Literal["stall", "not-finite", "worker-lost", "limit", "growth", "gate", "rank"]
_FAR_SECONDS = 24 * 3600.0  # a limit that is further away is no news


@dataclass(frozen=True)
class Alert:
    kind: AlertKind
    text: str


@dataclass(frozen=True)
class GateLine:
    text: str
    is_met: bool | None  # None: it was not judged


def alerts_of(
    *,
    stalled_seconds: float | None,
    loss: Loss | None,
    memory: Memory | None,
    processes: Sequence[ProcessLine],
    gauges: Sequence[Gauge],
    gates: Sequence[GateLine],
    ranks: Sequence[str] = (),
) -> list[Alert]:
    found: list[Alert] = []
    if stalled_seconds is not None:
        found.append(Alert("stall", f"no progress for {duration_in_words(stalled_seconds)}"))
    if loss is not None and loss.first_nonfinite_step is not None:
        found.append(
            Alert("not-finite", f"the loss is not finite since step {loss.first_nonfinite_step:,}")
        )
    found += [Alert("rank", text) for text in ranks]
    found += _lost(processes)
    found += _memory(memory)
    found += [_near(gauge) for gauge in gauges if gauge.is_near]
    found += [Alert("gate", gate.text) for gate in gates if gate.is_met is False]
    return found


def gates_of(events: Sequence[Event]) -> list[GateLine]:
    """Those that were not met first, then those that were, then those that nobody could judge."""
    found = []
    for event in events:
        if event.kind == "gate":
            text, is_met = event.data.get("text"), event.data.get("is_met")
            said = text if isinstance(text, str) and text else f"gate {event.data.get('gate')}"
            found.append(GateLine(said, is_met if isinstance(is_met, bool) else None))
    return sorted(found, key=lambda gate: (False, True, None).index(gate.is_met))


def ranks_of(events: Sequence[Event]) -> list[str]:
    """Ranks that hold the others up now: one that is missing, then one that is slow."""
    found = []
    for kind in ("rank-missing", "straggler"):
        told = [event for event in events if event.kind in (kind, f"{kind}-over")]
        text = told[-1].data.get("text") if told and told[-1].kind == kind else None
        if isinstance(text, str) and text:
            found.append(text)
    return found


def _lost(processes: Sequence[ProcessLine]) -> list[Alert]:
    """Those that died badly while the run went on; of many, the first."""
    dead = [line for line in processes if line.died_badly and not line.is_alive]
    if not dead:
        return []
    first = dead[0]
    who = standing_in_words(first)
    more = f", and {counted(len(dead) - 1, 'other process').replace('processs', 'processes')}"
    text = f"{who} (pid {first.pid}) is gone: {first.state}{more if len(dead) > 1 else ''}"
    return [Alert("worker-lost", text)]


def _memory(memory: Memory | None) -> list[Alert]:
    if memory is None:
        return []
    found = []
    used, limit = memory.used_bytes, memory.limit_bytes
    if used is not None and limit and used >= 0.9 * limit:
        text = f"{memory.limit_name} {bytes_in_words(used)} of {bytes_in_words(limit)} in use"
        found.append(Alert("limit", text))
    left = memory.seconds_to_limit
    if left is not None and left < _FAR_SECONDS:
        found.append(Alert("growth", f"memory grows: full in about {duration_in_words(left)}"))
    return found


def _near(gauge: Gauge) -> Alert:
    if gauge.unit == "bytes":
        used, limit = bytes_in_words(gauge.used), bytes_in_words(gauge.limit or 0)
    else:
        used, limit = f"{gauge.used:,.0f}", f"{gauge.limit or 0:,.0f}"
    return Alert("limit", f"{gauge.name}: {used} of {limit} in use")
