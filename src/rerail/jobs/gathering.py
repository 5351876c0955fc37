"""Reading what the nodes of a job have left.

In: the place of a job. Out: its `Member`s, each node once, with its newest attempt. Promises:
bounded in number and size; a sign that cannot be read is as if it were not there. Of a store the
records of the nodes that matter are brought here, into a folder that the caller removes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rerail.errors import UsageError
from rerail.jobs.membership import is_path_part
from rerail.jobs.place import FolderPlace, Place, open_place
from rerail.jobs.records import BEAT, GOODBYE, HELLO, MOST_MEMBERS, Member, member_of
from rerail.jobs.sharing import FOLDER_VARIABLE, JOBS
from rerail.platform.deadline import Deadline, no_deadline
from rerail.store import find_home, layout

_MOST_SIGN_BYTES = 1 << 20
_MOST_FETCHED_BYTES = 256 << 20
AT_A_TIME = 16


def find_job(name: str, home: str | os.PathLike[str] | None = None) -> Place | None:
    """The job with this id, folder or URL; None if there is none."""
    if "://" in name:
        place = open_place(name)
        return place if _has_members(place) else None
    path = Path(name)
    places = [path] if path.is_dir() else []
    if path.name == name:
        beside = os.environ.get(FOLDER_VARIABLE)
        if beside and "://" in beside:
            place = open_place(beside, name)
            return place if _has_members(place) else None
        places += [Path(beside) / name] if beside else []
        with suppress(Exception):
            places.append(find_home(home, for_reading=True) / JOBS / name)
    for folder in places:
        with suppress(OSError):
            if next(folder.glob(f"*/*.{HELLO}.json"), None) is not None:
                return FolderPlace(folder.absolute())
    return None


def _has_members(place: Place) -> bool:
    try:
        return bool(place.signs(HELLO))
    except OSError as error:
        raise UsageError(f"{place.shown} cannot be read: {error}") from None


def gather(place: Place, deadline: Deadline | None = None) -> tuple[list[Member], int]:
    """The newest attempt of every node, the first node first; and how many nodes were not read,
    because the time was over: they are there, and that is all that is known of them."""
    deadline = deadline or no_deadline()
    names = frozenset(place.signs())
    told = [each for hello in sorted(names)[: 16 * MOST_MEMBERS] if (each := _node_of(hello))]

    def read(each: tuple[str, str]) -> Member | None:
        skips = deadline.skips("further nodes")
        return None if skips else _member(place, names, *each)

    newest: dict[str, Member] = {}
    # A request to a store takes as long whatever it asks for: several are under way at a time.
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for (node, _), member in zip(told, pool.map(read, told), strict=True):
            known = newest.get(node)
            is_room = known is not None or len(newest) < MOST_MEMBERS
            if member is None or not is_room:
                continue
            if known is None or (member.attempt, member.run) > (known.attempt, known.run):
                newest[node] = member
    found = sorted(newest.values(), key=_in_order)
    unread = {node for node, _ in told} - newest.keys() if deadline.left_out else set()
    return [_with_folder(place, member) for member in found], len(unread)


def _node_of(hello: str) -> tuple[str, str] | None:
    """The node and the run of a first sign; None of what no node of ours has written."""
    node, _, rest = hello.partition("/")
    run = rest.removesuffix(f".{HELLO}.json")
    is_one = run != rest and "/" not in rest and is_path_part(node) and is_path_part(run)
    return (node, run) if is_one else None


def _member(place: Place, names: Container[str], node: str, run: str) -> Member | None:
    signs = [f"{node}/{run}.{sign}.json" for sign in (HELLO, BEAT, GOODBYE)]
    member = member_of(node, run, *(_read(place, s) if s in names else None for s in signs))
    if member is None:
        return None
    last = next(sign for sign in reversed(signs) if sign in names)
    return replace(member, age_seconds=place.age_seconds(last))


def _in_order(member: Member) -> tuple[int, int, str]:
    far = 1 << 30
    node_rank = far if member.node_rank is None else member.node_rank
    return node_rank, far if member.rank is None else member.rank, member.node


def _with_folder(place: Place, member: Member) -> Member:
    if not isinstance(place, FolderPlace):
        return member
    folder = place.folder / member.node / layout.RUNS / member.run
    with suppress(OSError):  # of another user
        if (folder / layout.RUN).is_file():
            return replace(member, folder=folder)
    return member


def fetch(
    place: Place, members: list[Member], into: Path, deadline: Deadline | None = None
) -> list[Member]:
    """The same with their records here; what is too large or cannot be had is left out."""
    deadline = deadline or no_deadline()
    if isinstance(place, FolderPlace):
        return members
    left = _MOST_FETCHED_BYTES
    fetched = []
    for member in members:
        base = f"{member.node}/{layout.RUNS}/{member.run}"
        target = into / member.node / layout.RUNS / member.run
        if deadline.skips(f"the record of node {member.node}"):
            break
        with suppress(OSError):
            for name, size in _plain(place, base):
                if size > left or deadline.skips(f"the record of node {member.node}"):
                    continue
                left -= size
                with suppress(OSError):
                    path = target / name
                    layout.make_folder(path.parent)
                    data = place.read(f"{base}/{name}", size + (1 << 20)) if size else b""
                    layout.replace_file(path, data)
        has_record = (target / layout.RUN).is_file()
        fetched.append(replace(member, folder=target if has_record else None))
    return fetched


def _plain(place: Place, base: str) -> Iterator[tuple[str, int]]:
    """Files below, none of whose names leads elsewhere; the small ones first."""
    found = []
    for name, size in place.files(base):
        inside = name.removeprefix(f"{base}/")
        if inside != name and not {"", ".", ".."} & set(inside.split("/")):
            found.append((inside, size))
    yield from sorted(found, key=lambda each: each[1])


def _read(place: Place, name: str) -> Any:
    try:
        return json.loads(place.read(name, _MOST_SIGN_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
