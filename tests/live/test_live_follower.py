"""Following a run that grows: each look sees what a first look would see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.live import Follower, build, take_snapshot
from rerail.live.follower import MOST_EVENTS, MOST_PROCESSES, MOST_RECENT
from rerail.records import Event
from rerail.store import FollowedLines, FollowedOutput, ProcessAssembly, RunFolder, Store
from rerail.store.process_records import assemble_processes

HEADER = {"schema": 1, "process_fields": ["rss_anon_bytes", "cpu_seconds"]}


def a_row(t: float) -> dict[str, Any]:
    return {"t": t, "span": 0, "n": 1, "tree": [1 << 20, t], "procs": {"7-1": [1 << 20, t]},
            "machine": {}, "min": {}, "max": {}}  # fmt: skip


def append(path: Path, *values: Any) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(value) + "\n" for value in values))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    writer = Store(tmp_path / "store").create_run(["python", "train.py"], tmp_path, {}, False)
    return RunFolder(writer.path)


def test_each_look_sees_what_a_first_look_sees(folder: RunFolder) -> None:
    follower = Follower(folder)
    follower.look()
    append(folder.path / "vitals.recent.jsonl", HEADER, a_row(0.1), a_row(0.2))
    for i in range(5):
        append(folder.path / "vitals.recent.jsonl", a_row(1.0 + i))
        append(
            folder.path / "events.jsonl",
            {"t": i, "kind": "process-started", "pid": 10 + i, "start": 5, "role": "child"},
            {"t": i, "kind": "stall", "silent_seconds": 3},
        )
        with (folder.path / "output.log").open("ab") as output:
            output.write(b"line %d\nhalf" % i)
        seen, anew = follower.look(), take_snapshot(folder)
        for part in ("processes", "recent", "printed", "events"):
            assert getattr(seen, part) == getattr(anew, part), part


def test_rows_go_on_where_the_file_is_put_aside(folder: RunFolder) -> None:
    recent = folder.path / "vitals.recent.jsonl"
    follower = Follower(folder)
    append(recent, HEADER, a_row(1.0))
    follower.look()
    recent.rename(folder.path / "vitals.recent.old.jsonl")
    append(recent, HEADER, a_row(2.0))
    assert [row.t_seconds for row in follower.look().recent] == [1.0, 2.0]


def test_memory_is_bounded_however_long_the_run_is(folder: RunFolder) -> None:
    follower = Follower(folder)
    append(folder.path / "vitals.recent.jsonl", HEADER)
    for i in range(6):
        rows = [a_row(i * 1000 + k / 10) for k in range(1000)]
        append(folder.path / "vitals.recent.jsonl", *rows)
        pids = range(1000 + i * 1000, 2000 + i * 1000)
        for pid in pids:
            append(
                folder.path / "events.jsonl",
                {"t": i, "kind": "process-started", "pid": pid, "start": 1},
                {"t": i, "kind": "process-ended", "pid": pid, "start": 1, "exit_code": 0},
                {"t": i, "kind": "note", "text": "x"},
            )
        snapshot = follower.look()
    assert len(snapshot.recent) == MOST_RECENT
    assert len(snapshot.processes) == MOST_PROCESSES
    assert len(snapshot.events) == MOST_EVENTS
    assert snapshot.recent[-1].t_seconds == pytest.approx(5099.9)


def test_of_very_many_processes_the_living_and_the_dead_stay() -> None:
    assembly = ProcessAssembly(most=10)
    events = [Event(0.0, "process-started", {"pid": 1, "start": 1})]
    events += [Event(0.0, "process-ended", {"pid": 2, "start": 1, "signal": "SIGKILL"})]
    events += [
        Event(1.0, "process-ended", {"pid": p, "start": 1, "exit_code": 0}) for p in range(3, 99)
    ]
    for event in events:
        assembly.add([event])
    pids = [record.pid for record in assembly.records()]
    assert pids[:2] == [1, 2]
    assert len(pids) == 10
    assert 98 in pids


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(folder: RunFolder) -> None:
    (folder.path / "vitals.jsonl").symlink_to("/dev/zero")
    (folder.path / "output.log").write_bytes(b"hello\n")
    view = build(Follower(folder).look())
    assert view.output == ["hello"]
    assert any("vitals" in text for text in view.missing)


def test_steps_that_a_program_prints_give_its_pace(folder: RunFolder) -> None:
    follower = Follower(folder)
    for step in (10, 20):
        with (folder.path / "progress.jsonl").open("ab") as rows:
            rows.write(b'{"t_seconds":%d,"step":%d,"steps":%d,"total":100}\n' % (step, step, step))
        snapshot = follower.look()
    assert [point.step for point in snapshot.printed_progress] == [10, 20]
    progress = build(snapshot).progress
    assert progress is not None
    assert (progress.steps, progress.done, progress.total) == (20, 20, 100)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_whole_lines_come_once_and_torn_ones_when_they_are_whole(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "events.jsonl"
    text = b"".join(
        b'{"a": %d}\n' % i + piece.replace(b"\n", b"") + b"\n" for i, piece in enumerate(pieces)
    )
    followed = FollowedLines(path)
    found: list[Any] = []
    for at in range(0, len(text), 9):
        with path.open("ab") as file:
            file.write(text[at : at + 9])
        found += [value["a"] for value in followed.new() if "a" in value]
    assert [value for value in found if isinstance(value, int)][: len(pieces)] == list(
        range(len(pieces))
    )


def test_of_a_long_file_the_first_line_and_the_end_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append(path, *({"n": i} for i in range(10_000)))
    followed = FollowedLines(path, most_bytes=1000)
    numbers = [value["n"] for value in followed.new()]
    assert numbers[0] == 0
    assert numbers[-1] == 9999
    assert len(numbers) < 200
    append(path, {"n": -1})
    assert [value["n"] for value in followed.new()] == [-1]


def test_the_tail_of_output_goes_on_into_the_next_file(tmp_path: Path) -> None:
    output = FollowedOutput(tmp_path, most_bytes=100)
    assert output.tail(5) == []
    (tmp_path / "output.log").write_bytes(b"a\nb\nc")
    assert output.tail(5) == [b"a", b"b", b"c"]
    with (tmp_path / "output.log").open("ab") as file:
        file.write(b"c\nd\n")
    assert output.tail(3) == [b"b", b"cc", b"d"]
    (tmp_path / "output.tail-1.log").write_bytes(b"e\n")
    assert output.tail(3) == [b"cc", b"d", b"e"]
    (tmp_path / "output.tail-1.log").write_bytes(b"x" * 500 + b"\nlast\n")
    assert output.tail(1) == [b"last"]


def test_a_follower_s_processes_are_those_of_the_whole_record(folder: RunFolder) -> None:
    events = [
        Event(0.0, "process-started", {"pid": 5, "start": 2, "role": "main"}),
        Event(1.0, "process-changed", {"pid": 5, "start": 2, "name": "python"}),
        Event(2.0, "process-ended", {"pid": 5, "start": 0, "exit_code": 1}),
    ]
    assembly = ProcessAssembly()
    for event in events:
        assembly.add([event])
    assert assembly.records() == assemble_processes(events)
