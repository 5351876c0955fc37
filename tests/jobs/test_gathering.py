"""Reading what the nodes have left has an end, and nobody is called absent for want of time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.errors import UnreadableInput
from rerail.jobs import explain as explaining
from rerail.jobs.gathering import gather
from rerail.jobs.place import FolderPlace
from rerail.jobs.standing import missing_nodes
from rerail.platform.deadline import Deadline


def nodes(folder: Path, count: int) -> FolderPlace:
    for at in range(count):
        (folder / f"n{at}").mkdir(parents=True)
        hello = {"schema": 1, "host": f"n{at}", "node_rank": at, "expected": count, "unix": 1.0}
        (folder / f"n{at}/20260101-000000-aaaa.hello.json").write_text(json.dumps(hello))
    return FolderPlace(folder)


class StopsAfter(FolderPlace):
    """A store whose time is over once it has answered so many requests."""

    def __init__(self, folder: Path, deadline: Deadline, answers: int) -> None:
        super().__init__(folder)
        self._deadline, self._left = deadline, answers

    def read(self, name: str, most_bytes: int) -> bytes:
        self._left -= 1
        if self._left <= 0:
            self._deadline._end = 0.0
        return super().read(name, most_bytes)


def test_all_are_read_where_there_is_time(tmp_path: Path) -> None:
    members, unread = gather(nodes(tmp_path, 40))
    assert [member.node_rank for member in members] == list(range(40)) and unread == 0


def test_nodes_that_there_was_no_time_for_have_come_all_the_same(tmp_path: Path) -> None:
    nodes(tmp_path, 200)
    deadline = Deadline(3600)
    members, unread = gather(StopsAfter(tmp_path, deadline, 20), deadline)
    assert 0 < len(members) < 200 and len(members) + unread == 200
    assert deadline.left_out == ["further nodes"]
    assert missing_nodes(members, unread) == (200, 200, [])


def test_a_place_of_which_nothing_could_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "SECONDS", 0.0)
    with pytest.raises(UnreadableInput, match="none of the 3 nodes"):
        explaining.explain_job(nodes(tmp_path, 3))
