"""Is every rank's part of a checkpoint there? For checkpoints that each rank writes a piece of.

In: the files of one checkpoint folder. Out: nothing, or `Torn` with the part that is missing.
Promises: nothing is executed; a part is asked for only where the checkpoint itself says that it
must exist: torch's `.metadata` names each shard with its length, names say "rank 1 of 4", DeepSpeed
keeps the number of ranks in its model states, and ranks are counted from 0 without a gap.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rerail.checkpoints.formats import Torn, Unfinished
from rerail.checkpoints.formats.budget import Budget
from rerail.platform.patterns import linear

METADATA = ".metadata"  # written last, by one rank, when all shards are there
_SHARD = ".distcp"
_LARGEST_METADATA_BYTES = 64 << 20
_LARGEST_STATES_PICKLE_BYTES = 32 << 20
_OPCODES_PER_LOOK = 2048
_MOST_NAMED = 3
# zero_pp_rank_1_mp_rank_00_optim_states.pt, mp_rank_01_model_states.pt, layer_03-model_00-…
_RANK = linear(r"(?:^|[._-])((?:pp_|mp_|tp_|dp_|ep_|local_)?rank)[._-]?([0-9]{1,6})")
_OF = linear(r"(?:_of_|-of-|world_size[._-]?|ws[._-]?)([0-9]{1,6})")
_DEEPSPEED_STATES = "_model_states.pt"
_DEEPSPEED_SHARD = linear(r"zero_pp_rank_[0-9]+_mp_rank_[0-9]+_(?:optim|model)_states\.pt$")


def check_parts(folder: Path, files: Sequence[Path], budget: Budget) -> str | None:
    """What was not looked at, or None; raises `Torn` where a part is missing."""
    names = {file.relative_to(folder).as_posix(): file for file in files}
    unchecked = None
    for name, file in names.items():
        if file.name == METADATA and any(each.endswith(_SHARD) for each in names):
            unchecked = _check_metadata(file, name, names, budget) or unchecked
    for group in _rank_groups(names):
        group.check()
    _check_deepspeed(names, budget)
    return unchecked


def ranks_in(files: Sequence[Path]) -> int:
    """How many ranks have a part in it, by the names; 0 where no name has a rank."""
    groups = _rank_groups(map(str, files))
    return max((len(group.ranks) for group in groups), default=0)


# -- torch's distributed checkpoints ---------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    path: str
    end: int  # offset and length together


def _check_metadata(
    metadata: Path, name: str, names: dict[str, Path], budget: Budget
) -> str | None:
    """Every shard that it refers to, in at least the length that it says."""
    if metadata.stat().st_size > _LARGEST_METADATA_BYTES:
        return f"{name} has more than {_LARGEST_METADATA_BYTES >> 20} MiB; its shards"
    base = name.removesuffix(METADATA)
    ends: dict[str, int] = defaultdict(int)
    try:
        for piece in _pieces(metadata.read_bytes(), budget):
            ends[piece.path] = max(ends[piece.path], piece.end)
    except Unfinished as why:
        return f"{name}: {why}"
    for path, end in sorted(ends.items()):
        file = names.get(base + path)
        if file is None:
            raise Torn(f"{path}, which {METADATA} refers to, is missing")
        size = file.stat().st_size
        if size < end:
            raise Torn(f"{path} has {size} bytes, and {METADATA} says {end}")
    return None


def _pieces(pickled: bytes, budget: Budget) -> Iterator[_Piece]:
    """Where each tensor lies: fields relative_path, offset and length, in this order."""
    path: str | None = None
    field: str | None = None
    offset = 0
    for value in _values(pickled, budget):
        if isinstance(value, str):
            if field == "relative_path":
                path, field = value, None
            else:
                field = value if value in ("relative_path", "offset", "length") else None
        elif isinstance(value, int) and path is not None:
            if field == "offset":
                offset = value
            elif field == "length":
                yield _Piece(path, offset + value)
                path = None
            field = None


def _values(pickled: bytes, budget: Budget) -> Iterator[Any]:
    """The texts and whole numbers of a pickle, in order, those from its memo too."""
    memo: dict[int, Any] = {}
    last: Any = None
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(pickled)):
            if count % _OPCODES_PER_LOOK == 0:
                budget.spend_opcodes()
            name = opcode.name
            if name == "MEMOIZE":
                memo[len(memo)] = last
                continue
            if name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[int(argument or 0)] = last
                continue
            last = None
            if name in ("GET", "BINGET", "LONG_BINGET"):
                last = memo.get(int(argument or 0))
            elif "UNICODE" in name or name.startswith(("BININT", "LONG", "INT")):
                last = argument
            if isinstance(last, (str, int)) and not isinstance(last, bool):
                yield last
    except (ValueError, IndexError, OverflowError) as error:
        raise Torn(f"its pickle is damaged ({str(error)[:60]})") from None


# -- a file for each rank --------------------------------------------------------------------------


@dataclass
class _RankGroup:
    """Files whose names differ in one rank alone."""

    pattern: str  # the name, with * for the rank
    ranks: set[int]
    declared: int = 0  # how many there must be, as a name says

    @property
    def is_of_ranks(self) -> bool:
        """Not lora_rank_8.pt, which is another kind of rank."""
        return bool(self.declared) or 0 in self.ranks or len(self.ranks) == self._count - 1

    @property
    def _count(self) -> int:
        return max(self.declared, max(self.ranks) + 1)

    def check(self) -> None:
        missing = [str(rank) for rank in range(self._count) if rank not in self.ranks]
        if missing:
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            which = f"{', '.join(missing[:_MOST_NAMED])}{more}"
            raise Torn(f"the part of rank {which} of {self._count} is missing ({self.pattern})")


def _rank_groups(names: Iterable[str]) -> list[_RankGroup]:
    groups: dict[str, _RankGroup] = {}
    for name in names:
        folder, _, own = name.rpartition("/")
        declared = _OF.search(own)
        for found in _RANK.finditer(own):
            begin, end = found.span(2)
            pattern = f"{folder}/{own[:begin]}*{own[end:]}".lstrip("/")
            group = groups.setdefault(pattern, _RankGroup(pattern, set()))
            group.ranks.add(int(own[begin:end]))
            if declared and found[1] == "rank":
                group.declared = int(declared[1])
    return [group for group in groups.values() if group.is_of_ranks]


# -- DeepSpeed -------------------------------------------------------------------------------------


def _check_deepspeed(names: dict[str, Path], budget: Budget) -> None:
    """Its model states hold how many ranks wrote: the last ones may be missing without a gap."""
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if _DEEPSPEED_SHARD.search(name):
            by_folder[name.rpartition("/")[0]].append(name)
    for folder, shards in by_folder.items():
        prefix = f"{folder}/" if folder else ""
        states = sorted(
            name for name in names if name.startswith(prefix) and name.endswith(_DEEPSPEED_STATES)
        )
        if not states:
            raise Torn("no mp_rank_…_model_states.pt is there")
        ranks = _number_in(names[states[0]], "dp_world_size", budget)
        kinds = {"optim" if "_optim_" in name else "model" for name in shards}
        for kind in sorted(kinds):
            found = {int(m[1]) for m in map(_DP_RANK.search, shards) if m and f"_{kind}_" in m[0]}
            if ranks is not None and len(found) < ranks:
                lost = min(set(range(ranks)) - found)
                raise Torn(f"of {ranks} ranks zero_pp_rank_{lost}_…_{kind}_states.pt is missing")


_DP_RANK = linear(r"zero_pp_rank_([0-9]+)_mp_rank_[0-9]+_(?:optim|model)_states")


def _number_in(file: Path, key: str, budget: Budget) -> int | None:
    """The whole number behind this key in the pickle of a torch file; None if it has none."""
    try:
        with zipfile.ZipFile(file) as archive:
            member = next(each for each in archive.infolist() if each.filename.endswith("data.pkl"))
            if member.file_size > _LARGEST_STATES_PICKLE_BYTES:
                return None
            pickled = archive.read(member)
        is_next = False
        for value in _values(pickled, budget):
            if is_next and isinstance(value, int):
                return value if 0 < value < 1_000_000 else None
            is_next = value == key
    except (OSError, zipfile.BadZipFile, StopIteration, Torn, Unfinished):
        return None  # what is wrong with the file itself was said when it was checked
    return None
