"""The agent's files read back: whole, cut off anywhere, and damaged."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.agent.stub import rerail_layout as layout
from rerail.records import BlackBox, Crash
from rerail.store.blackbox import read_box
from rerail.store.crashfile import read_crash

RECORD = """rerail-crash 1
signal 11 SIGSEGV
code 1 SEGV_MAPERR
address 0x7f0000000010
pid 4711
parent 4700
tid 4713
main 0
thread pt data worker
time 5000000000
stack 0x7ffe00000000 0x7ffe00800000
register rip 0x55550010
register rsp 0x7ffe00000100
maps
55550000-55551000 r--p 00000000 fe:00 12 /opt/lib/libfaiss.so
55551000-55552000 r-xp 00001000 fe:00 12 /opt/lib/libfaiss.so
55560000-55561000 r-xp 00000000 fe:00 13 /opt/My Libs/libx.so (deleted)
7f0000000000-7f0000001000 r--s 00002000 fe:00 14 /data/vectors.npy
7ffe00000000-7ffe00800000 rw-p 00000000 00:00 0 [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
end-maps
frames
frame 0x55551010
frame 0x55551021
frame 0x55560100
frame 0x99
frame-total 1000
end-frames
message free(): invalid pointer
python
Current thread 0x00007f1b (most recent call first):
  File "/srv/a "quoted" name.py", line 12 in search
  File "<string>", line ??? in <module>

Thread 0x00007f2c [pool-1] (most recent call first):
  File "/srv/b.py", line 3 in wait
end-python
end
"""


def crash_of(folder: Path, text: str | bytes, t0_ns: int = 0) -> Crash | None:
    path = folder / "4711-99.crash"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_crash(path, t0_ns)


def test_whole_record(tmp_path: Path) -> None:
    crash = crash_of(tmp_path, RECORD, t0_ns=1_000_000_000)

    assert crash is not None
    assert (crash.pid, crash.start_ticks, crash.thread_id) == (4711, 99, 4713)
    assert (crash.signal, crash.code, crash.address) == ("SIGSEGV", "SEGV_MAPERR", 0x7F0000000010)
    assert (crash.thread_name, crash.is_main_thread) == ("pt data worker", False)
    assert crash.t_seconds == 4.0
    assert crash.stack_bounds == (0x7FFE00000000, 0x7FFE00800000)
    assert crash.registers == {"rip": 0x55550010, "rsp": 0x7FFE00000100}
    assert crash.message == "free(): invalid pointer"
    assert crash.frame_total == 1000 and crash.is_complete and not crash.was_survived
    assert [m.path for m in crash.libraries] == [
        "/opt/lib/libfaiss.so",
        "/opt/My Libs/libx.so (deleted)",
    ]
    assert crash.libraries[0].base == 0x55550000
    assert crash.fault_mapping is not None
    assert crash.fault_mapping.path == "/data/vectors.npy"
    assert crash.fault_mapping.file_offset == 0x2000
    own, other = crash.threads
    # The faulting instruction as it is; return addresses one back, inside the call.
    assert [frame.address for frame in own.native] == [0x55551010, 0x55551020, 0x555600FF, 0x98]
    assert [frame.offset for frame in own.native] == [0x1010, 0x1020, 0xFF, None]
    assert own.is_crashed and own.thread_id == 4713
    assert [(f.file, f.line, f.function) for f in own.python] == [
        ('/srv/a "quoted" name.py', 12, "search"),
        ("<string>", 0, "<module>"),
    ]
    assert (other.thread_id, other.name, other.python[0].function) == (0x7F2C, "pool-1", "wait")


@pytest.mark.parametrize("pointer", ["0x7ffe00000100", "0x7ffdfffffe80"])
def test_a_stack_without_a_note_is_found_in_the_map(tmp_path: Path, pointer: str) -> None:
    """As of a main thread whose alternate stack was there before; it may have overflowed."""
    noted = "stack 0x7ffe00000000 0x7ffe00800000\n"
    text = RECORD.replace(noted, "").replace("rsp 0x7ffe00000100", f"rsp {pointer}")
    crash = crash_of(tmp_path, text)
    assert crash is not None and crash.stack_bounds == (0x7FFE00000000, 0x7FFE00800000)


def test_dump_of_all_threads_that_was_broken_off(tmp_path: Path) -> None:
    begin, _, rest = RECORD.partition("python\n")
    own = """python
Stack (most recent call first):
  File "/srv/train.py", line 7 in step

end-python
"""
    torn = rest.replace("line 12 in search", "line 12 in elsewhere")
    broken = """python
Thread 0x00007f2c [pool-1] (most recent call first):
  File "/srv/b.py", line 3 in wait
  File note Python's dump of all threads was broken off by SIGSEGV

end-python
end
"""
    for everybody in ("python\n" + torn, broken):
        crash = crash_of(tmp_path, begin + own + everybody)
        assert crash is not None and crash.is_complete
        crashed, other = crash.threads
        assert [(f.line, f.function) for f in crashed.python] == [(7, "step")]
        assert (other.thread_id, other.name, other.python[0].function) == (0x7F2C, "pool-1", "wait")


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"something else\n", b"rerail-crash 1\n"])
def test_no_crash(tmp_path: Path, content: bytes) -> None:
    assert crash_of(tmp_path, content) is None


def test_file_that_is_not_there(tmp_path: Path) -> None:
    assert read_crash(tmp_path / "1-2.crash", 0) is None
    assert read_box(tmp_path / "1-2.box", 0) is None


def test_first_of_a_burst_beats_its_echo(tmp_path: Path) -> None:
    echo = RECORD.replace("11 SIGSEGV", "6 SIGABRT").replace("time 5000000000", "time 5100000000")
    later = echo.replace("time 5100000000", "time 95000000000")

    assert crash_of(tmp_path, RECORD + echo).signal == "SIGSEGV"  # type: ignore[union-attr]
    assert crash_of(tmp_path, RECORD + later).signal == "SIGABRT"  # type: ignore[union-attr]
    survived = crash_of(tmp_path, RECORD + "survived\n")
    assert survived is not None and survived.was_survived
    after = crash_of(tmp_path, RECORD + "survived\n" + echo)
    assert after is not None and (after.signal, after.was_survived) == ("SIGABRT", False)


def test_map_that_was_cut_for_want_of_room(tmp_path: Path) -> None:
    head, _, tail = RECORD.partition("7ffe00000000-7ffe00800000 rw")
    cut = head + "7ffe0000\nmaps-cut\nend-maps\n" + tail.partition("end-maps\n")[2]
    crash = crash_of(tmp_path, cut + "rest of the map\n55550000-5555")

    assert crash is not None and crash.is_complete
    assert len(crash.threads[0].native) == 4


@given(st.integers(min_value=0, max_value=len(RECORD)))
def test_cut_off_anywhere(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole, crash = crash_of(folder, RECORD), crash_of(folder, RECORD[:length])

    if crash is None:
        assert length < RECORD.index("code")
    else:
        assert whole is not None
        assert crash.signal == whole.signal
        assert crash.is_complete == (length == len(RECORD))
        for mine, its in zip(crash.threads, whole.threads, strict=False):
            assert mine.native == its.native[: len(mine.native)]
            assert mine.python == its.python[: len(mine.python)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(RECORD)), st.sampled_from(["put", "drop"]), st.binary(max_size=30)
        ),
        max_size=6,
    )
)
def test_damaged_anywhere(
    tmp_path_factory: pytest.TempPathFactory, damages: list[tuple[int, str, bytes]]
) -> None:
    content = RECORD.encode()
    for at, how, octets in damages:
        skip = len(octets) if how == "drop" else 0
        content = content[:at] + (octets if how == "put" else b"") + content[at + skip :]

    crash = crash_of(tmp_path_factory.getbasetemp(), content)
    assert crash is None or isinstance(crash, Crash)


@given(st.text(alphabet="rerail-cash 1\nsignal codmapsfthy0x9endu\t", max_size=300))
def test_garbage_after_the_first_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    crash = crash_of(tmp_path_factory.getbasetemp(), "rerail-crash 1\nsignal 11 SIGSEGV\n" + text)

    assert crash is not None and crash.signal


def empty_box() -> bytearray:
    octets = bytearray(layout.SIZE)
    octets[:8] = layout.MAGIC
    struct.pack_into("=II", octets, 8, layout.VERSION, layout.SIZE)
    return octets


def box_of(folder: Path, octets: bytes) -> BlackBox | None:
    path = folder / "4711-99.box"
    path.write_bytes(octets)
    return read_box(path, 0)


def test_box_of_another_layout(tmp_path: Path) -> None:
    assert box_of(tmp_path, bytes(empty_box())) is not None
    assert box_of(tmp_path, bytes(empty_box()[:-1])) is None
    assert box_of(tmp_path, bytes(layout.SIZE)) is None
    other = empty_box()
    struct.pack_into("=I", other, 8, layout.VERSION + 1)
    assert box_of(tmp_path, bytes(other)) is None


@given(st.binary(min_size=1, max_size=layout.SIZE - 16), st.integers(16, layout.SIZE - 1))
def test_box_with_damaged_content(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes, at: int
) -> None:
    """A process that scribbled over its own memory wrote into its box as well."""
    content = empty_box()
    content[at : at + len(octets)] = octets
    box = box_of(tmp_path_factory.getbasetemp(), bytes(content[: layout.SIZE]))

    assert isinstance(box, BlackBox)
    assert len(box.history) <= layout.HISTORY_LENGTH and len(box.files) <= layout.FILE_LENGTH


@pytest.mark.parametrize(
    ("steps", "backward", "expected"),
    [(0, 0, None), (0, 3, None), (10, 10, 1.0), (10, 11, 1.0), (10, 43, 4.0), (10, 25, 2.5)],
)
def test_accumulation(tmp_path: Path, steps: int, backward: int, expected: float | None) -> None:
    content = empty_box()
    struct.pack_into("=q", content, layout.WORD["optimizer_steps"] * 8, steps)
    struct.pack_into("=q", content, layout.WORD["backward_calls"] * 8, backward)
    box = box_of(tmp_path, bytes(content))

    assert box is not None and box.backward_per_step == expected


def test_no_two_fields_overlap() -> None:
    spans = [(index * 8, 8) for index in layout.WORD.values()]
    spans += [(offset, 2 + capacity) for offset, capacity in layout.TEXT.values()]
    spans += [(offset, 8) for name, offset in layout.HEAD.items() if offset >= 16]
    sizes = {"history": layout.HISTORY_LENGTH * layout.HISTORY_WORDS * 8}
    sizes["loaders"] = layout.LOADER_LENGTH * layout.LOADER_WORDS * 8
    sizes["files"] = layout.FILE_LENGTH * layout.FILE_SIZE
    sizes["notes"] = layout.NOTE_LENGTH * (2 + layout.NOTE_CAPACITY)
    sizes["collectives"] = layout.COLLECTIVE_LENGTH * layout.COLLECTIVE_WORDS * 8
    sizes["places"] = layout.PLACE_LENGTH * (2 + layout.PLACE_CAPACITY)
    sizes["groups"] = layout.GROUP_LENGTH * (2 + layout.GROUP_CAPACITY)
    spans += [(at, sizes[name]) for name, at in layout.AREA.items()]
    spans.sort()
    for (at, length), (following, _) in itertools.pairwise(spans):
        assert at + length <= following
    assert all(offset % 8 == 0 for offset in layout.AREA.values())
