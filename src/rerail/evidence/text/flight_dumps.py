"""What PyTorch's Flight Recorder kept of one rank: its last collectives.

In: a dump as NCCL's watchdog writes it at a timeout (`nccl_trace_rank_3`, `comm_lib_trace_rank_3`),
or what `_dump_fr_trace` and `_dump_fr_trace_json` of torch return: a pickle or JSON. Out:
`FlightDump`: for each group the calls of this rank, with the line of the user's own code. Promises:
nothing in a dump is ever called or imported (plain_pickle.py); size and number of entries are
bounded; a field that is absent or of another kind costs this field or its entry only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from rerail.errors import UnreadableInput
from rerail.evidence.text.plain_pickle import NotPlain, read_plain
from rerail.platform.own_code import innermost_own
from rerail.platform.patterns import linear
from rerail.records import CollectiveCall, PythonFrame

MOST_BYTES = 64 << 20
MOST_JSON_BYTES = 16 << 20  # a byte of JSON may become thirty in memory
MOST_ENTRIES = 100_000
MOST_FRAMES = 200
MOST_CHARS = 300
MOST_LIST = 1 << 20  # characters
MOST_RANK = 10_000_000
MOST_SIDES = 3  # as a black box keeps
DEFAULT_GROUP = "default_pg"

_NAME = linear(
    r"(?i)(?:^|[^a-z])(?:nccl|rccl|xccl|comm_lib|fr|flight)[-_]?(?:trace|dump)|flight[-_]?recorder"
)
_RANK = linear(r"(?i)rank[-_.]?(\d{1,8})(?:\D|$)")
_LAST_NUMBER = linear(r"(\d{1,8})(?:\.[A-Za-z]+)*$")
_NUMBER = linear(r"\d{1,7}")
_OF_A_DUMP = (b"pg_config", b"collective_seq_id", b"comm_lib_version", b"nccl_version")


@dataclass(frozen=True)
class FlightCall:
    call: CollectiveCall  # its group is the key of `FlightDump.groups`
    state: str  # scheduled, started, completed; of gloo ended: it returned, or failed
    entry: int  # its place in the dump, from 1 on

    @property
    def is_open(self) -> bool:
        return self.state in ("scheduled", "started")


@dataclass
class FlightDump:
    name: str
    rank: int
    groups: dict[str, list[FlightCall]] = field(default_factory=dict)  # in order of sequence
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)  # where the dump names them
    is_whole: bool = True  # nothing was pushed out of the buffer by later calls

    @property
    def calls(self) -> list[CollectiveCall]:
        """All whose number within the group is theirs alone: not those of a coalesced call."""
        found: dict[tuple[str, int], list[CollectiveCall]] = {}
        for calls in self.groups.values():
            for one in calls:
                found.setdefault((one.call.group, one.call.sequence), []).append(one.call)
        return [calls[0] for calls in found.values() if len(calls) == 1]

    def last(self, group: str) -> FlightCall | None:
        calls = self.groups.get(group)
        return calls[-1] if calls else None


def is_dump_name(name: str) -> bool:
    """Whether a file that nobody chose is looked at, whatever its suffix."""
    return _NAME.search(name) is not None


def is_dump(head: bytes) -> bool:
    """Whether a file that begins like this is one."""
    is_pickle = head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05"
    is_json = head.lstrip()[:1] == b"{"
    return (is_pickle or is_json) and any(word in head for word in _OF_A_DUMP)


def read_dump(raw: bytes, name: str) -> FlightDump:
    """UnreadableInput if it is none, or too large, or holds more than plain values."""
    rank = rank_of_dump(name)
    if rank is None:
        raise UnreadableInput(
            f"{name} is a Flight Recorder dump, and its name does not say of which rank.",
            "Name it after its rank: fr_trace_rank_0",
        )
    document = _document(raw, name)
    entries = document.get("entries")
    dump = FlightDump(name, rank)
    config = document.get("pg_config")
    for at, entry in enumerate(entries[:MOST_ENTRIES] if isinstance(entries, list) else ()):
        if not isinstance(entry, dict):
            continue
        if at == 0:
            dump.is_whole = _number(entry.get("record_id")) == 0
        if (found := _call(entry, at + 1)) is not None:
            group = found.call.group
            dump.groups.setdefault(group, []).append(found)
            if group not in dump.members and (members := _members(config, entry)):
                dump.members[group] = members
    for calls in dump.groups.values():
        calls.sort(key=lambda one: (one.call.sequence, one.entry))
    return dump


def rank_of_dump(name: str) -> int | None:
    base = name.rpartition("/")[2]
    found = _RANK.search(base) or _LAST_NUMBER.search(base)
    return int(found.group(1)) if found else None


def _document(raw: bytes, name: str) -> dict[str, Any]:
    is_json = raw[:64].lstrip()[:1] == b"{"
    most = MOST_JSON_BYTES if is_json else MOST_BYTES
    if len(raw) > most:
        raise UnreadableInput(
            f"{name} has more than {most >> 20} MiB.", "Set TORCH_FR_BUFFER_SIZE=2000."
        )
    try:
        document = json.loads(raw) if is_json else read_plain(raw)
    except NotPlain as error:
        raise UnreadableInput(
            f"{name} is no dump of the Flight Recorder: {error}.", "Name the dumps or the logs."
        ) from None
    except (ValueError, RecursionError):
        raise UnreadableInput(
            f"{name} is not a whole dump: its JSON cannot be read.", "Name the dumps or the logs."
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("entries"), (list, tuple)):
        raise UnreadableInput(f"{name} holds no collectives.", "Name the dumps of all ranks.")
    return document


def _call(entry: dict[str, Any], at: int) -> FlightCall | None:
    sequence = _number(entry.get("collective_seq_id"))
    name = entry.get("profiling_name")
    if entry.get("is_p2p") or sequence is None or sequence < 1 or not isinstance(name, str):
        return None
    library, _, op = name[:MOST_CHARS].rpartition(":")
    created = (_number(entry.get("time_created_ns")) or 0) / 1e9
    state = _state(entry, library)
    return FlightCall(
        CollectiveCall(
            number=_number(entry.get("op_id")) or 0,
            op=op,
            group=_group(entry),
            sequence=sequence,
            entered_t_seconds=created,
            left_t_seconds=None,
            has_raised=False,
            is_waited_for=state in ("scheduled", "started"),
            size_bytes=0,
            shape=_shape(entry.get("input_sizes")),
            place=innermost_own(_frames(entry.get("frames"))),
        ),
        state,
        at,
    )


def _state(entry: dict[str, Any], library: str) -> str:
    """gloo leaves every entry as scheduled, and retires it when the call returned or failed."""
    if library == "gloo" and entry.get("retired") is True:
        return "ended"
    state = entry.get("state")
    return state if state in ("started", "completed") else "scheduled"


def _group(entry: dict[str, Any]) -> str:
    name, about = _names(entry)
    return f"{name} {about}".strip()


def _names(entry: dict[str, Any]) -> tuple[str, str]:
    names = entry.get("process_group")
    texts = [one[:MOST_CHARS] for one in names if isinstance(one, str)] if _is_list(names) else []
    name, about, *_ = [*texts, "", ""]
    return name, about


def _members(config: Any, entry: dict[str, Any]) -> tuple[int, ...]:
    """gloo's default group stands there without its name."""
    name, about = _names(entry)
    if not isinstance(config, dict):
        return ()
    known = config.get(name) or (config.get("") if about == DEFAULT_GROUP else None)
    ranks = known.get("ranks") if isinstance(known, dict) else None
    if isinstance(ranks, str):
        return tuple(sorted({int(one.group()) for one in _NUMBER.finditer(ranks[:MOST_LIST])}))
    numbers = [_number(one) for one in ranks] if _is_list(ranks) else []
    return tuple(sorted({one for one in numbers if one is not None and 0 <= one < MOST_RANK}))


def _shape(sizes: Any) -> list[int]:
    """Of the first tensor."""
    first = sizes[0] if _is_list(sizes) and sizes else []
    sides = first if _is_list(first) else []
    return [side for one in sides[:MOST_SIDES] if (side := _number(one)) is not None]


def _frames(frames: Any) -> Iterator[PythonFrame]:
    for frame in frames[:MOST_FRAMES] if _is_list(frames) else ():
        if isinstance(frame, dict) and isinstance(file := frame.get("filename"), str):
            name = frame.get("name")
            function = name[:MOST_CHARS] if isinstance(name, str) else "?"
            yield PythonFrame(file[:MOST_CHARS], _number(frame.get("line")) or 0, function)


def _number(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 63 else None


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))
