"""What the command printed comes back byte for byte, with its true line numbers."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.store import OutputReader, layout
from rerail.store.appending import FaultLog
from rerail.store.codec import dump_line, loads
from rerail.store.output_log import OutputLog
from rerail.store.output_reader import LONGEST_PIECE

# A busy machine is no defect: no deadlines.
unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

chunks = st.lists(
    st.tuples(
        st.binary(max_size=40) | st.sampled_from([b"\n", b"a\n", b"\r", b"x\ny\n", b"\n\n\n"]),
        st.sampled_from(["stdout", "stderr"]),
        st.floats(0, 0.2),
    ),
    max_size=40,
)


class Recorded:
    """An OutputLog in a folder of its own, with small segments and its events on file."""

    def __init__(self, folder: Path, head_bytes: int = 1 << 20, tail_bytes: int = 1 << 20) -> None:
        self.folder = folder
        self.faults = FaultLog()
        self.sizes = {"head_bytes": head_bytes, "tail_bytes": tail_bytes}
        self.log = OutputLog(folder, self.faults, self.event, **self.sizes)

    def event(self, kind: str, **data: Any) -> None:
        with (self.folder / layout.EVENTS).open("ab") as file:
            file.write(dump_line({"t": 0.0, "kind": kind, **data}))

    def reader(self) -> OutputReader:
        return OutputReader(self.folder)


@unhurried
@given(chunks)
def test_bytes_lines_and_numbers_come_back(parts: list[tuple[bytes, str, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorded = Recorded(Path(folder))
        t = 0.0
        for data, stream, pause in parts:
            t += pause
            recorded.log.write(data, stream, t)
        everything = b"".join(data for data, _, _ in parts)
        reader = recorded.reader()
        assert reader.read(0, 10**9) == everything
        expected = everything.split(b"\n")
        if expected[-1] == b"":
            expected.pop()
        lines = list(reader)
        assert [line.text for line in lines] == expected
        assert [line.number for line in lines] == list(range(1, len(expected) + 1))
        for line in lines:
            assert everything[line.offset : line.offset + len(line.text)] == line.text
        for count in (0, 1, 3, 1000):
            assert reader.tail(count) == (lines[-count:] if count else [])
        for stream in ("stdout", "stderr"):
            own = b"".join(data for data, s, _ in parts if s == stream)
            wanted = own.split(b"\n")
            if wanted[-1] == b"":
                wanted.pop()
            assert [line.text for line in reader.lines_of_stream(stream)] == wanted


@unhurried
@given(chunks, st.integers(1, 60), st.integers(1, 30))
def test_huge_output_keeps_its_beginning_its_end_and_its_numbers(
    parts: list[tuple[bytes, str, float]], head: int, tail: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorded = Recorded(Path(folder), head, tail)
        for data, stream, t in parts:
            recorded.log.write(data, stream, t)
        recorded.log.close()
        everything = b"".join(data for data, _, _ in parts)
        reader = recorded.reader()
        assert reader.kept_bytes <= head + 2 * tail
        assert reader.size_bytes == len(everything)
        assert reader.read(0, head) == everything[:head]
        last = everything[max(head, len(everything) - tail) :]
        assert reader.read(len(everything) - len(last), len(everything)) == last
        for line in reader:
            assert everything[line.offset : line.offset + len(line.text)] == line.text
            assert line.number == everything[: line.offset].count(b"\n") + 1
        dropped = sum(
            int(text.split(b'"bytes":')[1].split(b",")[0])
            for text in _events(Path(folder))
            if b"output-dropped" in text
        )
        assert dropped == reader.dropped_bytes


def _events(folder: Path) -> list[bytes]:
    path = folder / layout.EVENTS
    return path.read_bytes().splitlines() if path.exists() else []


@unhurried
@given(chunks, chunks, st.integers(1, 60), st.integers(1, 30))
def test_a_second_writer_goes_on_where_the_first_was_killed(
    before: list[tuple[bytes, str, float]],
    after: list[tuple[bytes, str, float]],
    head: int,
    tail: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorded = Recorded(Path(folder), head, tail)
        for data, stream, t in before:
            recorded.log.write(data, stream, t)
        second = OutputLog.resume(Path(folder), FaultLog(), recorded.event, **recorded.sizes)
        for data, stream, t in after:
            second.write(data, stream, t)
        everything = b"".join(data for data, _, _ in before + after)
        reader = recorded.reader()
        assert reader.size_bytes == len(everything)
        for line in reader:
            assert everything[line.offset : line.offset + len(line.text)] == line.text
            assert line.number == everything[: line.offset].count(b"\n") + 1


def test_a_bar_that_never_ends_its_line_comes_in_pieces_of_one_number(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, 1 << 30)
    bar = b"\r 12%|###   | 120/1000 [00:10<01:20]"
    count = 3 * LONGEST_PIECE // len(bar)
    recorded.log.write(b"start\n" + bar * count + b"\nKilled\n", "stderr", 0.0)
    lines = list(recorded.reader())
    assert lines[0].text == b"start"
    assert lines[-1] == (3, b"Killed", len(b"start\n" + bar * count + b"\n"), True)
    pieces = lines[1:-1]
    assert len(pieces) > 1
    assert {piece.number for piece in pieces} == {2}
    assert b"".join(piece.text for piece in pieces) == bar * count
    assert all(len(piece.text) <= 2 * LONGEST_PIECE for piece in pieces)
    assert all(piece.text.endswith(b"\r") for piece in pieces[:-1])
    assert recorded.reader().tail(1)[0].text == b"Killed"


def test_around_gives_the_neighbourhood(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.log.write(b"".join(b"%d\n" % i for i in range(1, 101)), "stdout", 0.0)
    assert [line.number for line in recorded.reader().around(50, 2, 3)] == [48, 49, 50, 51, 52, 53]
    assert [line.number for line in recorded.reader().around(1, 2, 1)] == [1, 2]
    assert recorded.reader().around(1000) == []


def test_the_index_tells_when_and_from_which_stream(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    recorded.log.write(b"one\n", "stdout", 0.0)
    recorded.log.write(b"two\n", "stdout", 0.05)  # too soon for a row of its own
    recorded.log.write(b"three\n", "stdout", 0.2)
    recorded.log.write(b"four\n", "stderr", 0.21)
    reader = recorded.reader()
    assert [stretch.t_seconds for stretch in reader.stretches()] == [0.0, 0.2, 0.21]
    assert [stretch.stream for stretch in reader.stretches()] == ["stdout", "stdout", "stderr"]
    assert [line.number for line in reader.lines_of_stream("stderr")] == [4]


@pytest.mark.thorough
def test_the_index_stays_small_however_often_streams_take_turns(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path)
    for i in range(400_000):
        recorded.log.write(b"x", ("stdout", "stderr")[i % 2], i * 0.001)
    recorded.log.close()
    assert (tmp_path / layout.OUTPUT_INDEX).stat().st_size < 2.2 * 1024 * 1024
    streams = {stretch.stream for stretch in recorded.reader().stretches()}
    assert streams == {"stdout", "stderr", "mixed"}


@pytest.mark.parametrize("zeros", [1, 5000, 100_000])
def test_zeros_that_a_power_cut_left_are_no_output(tmp_path: Path, zeros: int) -> None:
    (tmp_path / layout.OUTPUT).write_bytes(b"one\ntwo" + bytes(zeros))
    assert [line.text for line in OutputReader(tmp_path, was_cut_off=True)] == [b"one", b"two"]
    assert OutputReader(tmp_path).size_bytes == 7 + zeros
    (tmp_path / layout.OUTPUT).write_bytes(bytes(zeros))
    assert list(OutputReader(tmp_path, was_cut_off=True)) == []


def test_no_output_reads_as_none(tmp_path: Path) -> None:
    reader = OutputReader(tmp_path)
    assert list(reader) == []
    assert reader.tail(5) == []
    assert reader.size_bytes == 0
    assert reader.stretches() == []


def test_bytes_that_the_disk_refused_are_a_gap_not_a_shift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(tmp_path)
    recorded.log.write(b"one\ntwo\n", "stdout", 0.0)
    clock = [0.0]
    real_write = os.write
    is_full = True

    def write(descriptor: int, data: Any) -> int:
        if is_full and Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".log":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr("rerail.store.output_log.os.write", write)
    monkeypatch.setattr("rerail.store.output_log.time.monotonic", lambda: clock[0])
    recorded.log.write(b"three\nfo", "stdout", 0.1)
    recorded.log.write(b"ur\n", "stdout", 0.2)
    is_full = False
    clock[0] = 60.0
    recorded.log.write(b"five\nsix\n", "stdout", 0.3)
    recorded.log.close()
    monkeypatch.undo()
    lines = [(line.number, line.text) for line in recorded.reader()]
    assert lines == [(1, b"one"), (2, b"two"), (5, b"five"), (6, b"six")]
    assert recorded.reader().dropped_bytes == len(b"three\nfour\n")
    assert recorded.faults.entries() == [("output", "no space left on device")]
    assert any(b'"output-dropped","bytes":11,"lines":2' in line for line in _events(tmp_path))


def flood_of(lines: int) -> list[bytes]:
    """Chunks as a pipe gives them, of lines that say their number from 0 on."""
    everything = b"".join(
        b"step %09d" % number + b" loss 0.5" * 7 + b"\n" for number in range(lines)
    )
    return [everything[at : at + 65_536] for at in range(0, len(everything), 65_536)]


@pytest.mark.parametrize("seconds", [0.05, 0.9], ids=["half a second", "a while"])
def test_of_a_flood_the_end_is_kept_with_its_true_numbers(tmp_path: Path, seconds: float) -> None:
    chunks = flood_of(1_200_000)
    everything = b"".join(chunks)
    head, tail = 1 << 20, 4 << 20
    recorded = Recorded(tmp_path, head, tail)
    for number, chunk in enumerate(chunks):
        recorded.log.write(chunk, "stdout", seconds * number / len(chunks))
    recorded.log.close()
    reader = recorded.reader()
    assert reader.size_bytes == len(everything)
    assert reader.read(0, head) == everything[:head]
    last = everything[-tail:]
    assert reader.read(len(everything) - tail, len(everything)) == last
    assert reader.kept_bytes <= head + 2 * tail + (2 << 20)
    for line in reader.tail(1000):
        assert everything[line.offset : line.offset + len(line.text)] == line.text
        assert line.number == int(line.text.split()[1]) + 1
    dropped = [loads(line)["bytes"] for line in _events(tmp_path) if b"output-dropped" in line]
    assert sum(dropped) == reader.dropped_bytes > 0


def test_a_flood_that_stops_is_on_file_soon(tmp_path: Path) -> None:
    """Nobody has to wait for the next output, or for the end of the run."""
    recorded = Recorded(tmp_path, 1 << 20, 4 << 20)
    chunks = flood_of(200_000)
    for chunk in chunks:
        recorded.log.write(chunk, "stdout", 0.01)
    recorded.log.look(0.02)
    held = recorded.reader().size_bytes
    recorded.log.look(0.2)
    assert recorded.reader().size_bytes == sum(map(len, chunks)) > held


def test_a_secret_on_the_edge_of_what_is_kept_is_masked(tmp_path: Path) -> None:
    secret = b"hf_" + b"abcdefgh" * 5
    line = b"trace " * 700 + b"key " + secret + b"\n"  # longer than what is looked at twice
    recorded = Recorded(tmp_path, 1 << 20, 1 << 20)
    for number in range(2_000):
        recorded.log.write(line * 15, "stdout", number * 1e-4)
    recorded.log.close()
    for path in tmp_path.glob("output*"):
        assert secret[4:] not in path.read_bytes(), path.name
