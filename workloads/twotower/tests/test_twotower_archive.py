"""Arrays used where they lie in an .npz, and what happens when they cannot be."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twotower.archive import ALIGNMENT, ArchiveWriter, map_archive, unpack_archive
from twotower.errors import BadDataError

ARRAYS = hnp.arrays(
    dtype=st.sampled_from([np.float32, np.float64, np.int64, np.uint8]),
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=9),
)


@given(st.dictionaries(st.from_regex(r"[A-Za-z_]{1,12}", fullmatch=True), ARRAYS, max_size=4))
@settings(max_examples=40, deadline=None)
def test_what_numpy_wrote_is_mapped_with_the_same_values(arrays: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        np.savez(path, **arrays)
        mapped = map_archive(path)
        assert mapped.keys() == arrays.keys()
        for name, array in arrays.items():
            assert isinstance(mapped[name], np.memmap)
            np.testing.assert_array_equal(mapped[name], array)


@given(st.dictionaries(st.from_regex(r"[A-Za-z_]{1,12}", fullmatch=True), ARRAYS, max_size=4))
@settings(max_examples=40, deadline=None)
def test_what_the_writer_wrote_numpy_reads_and_members_are_aligned(
    arrays: dict[str, np.ndarray],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        with ArchiveWriter(path) as writer:
            for name, array in arrays.items():
                writer.write(name, array)
        for name, mapped in map_archive(path).items():
            assert mapped.offset % ALIGNMENT == 0
            np.testing.assert_array_equal(np.load(path)[name], arrays[name])


def test_mapping_takes_no_memory_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    with ArchiveWriter(path) as writer, writer.member("x", (4096, 4096), np.float32) as sink:
        for _ in range(16):
            sink.append(np.ones((256, 4096), np.float32))

    def anonymous_kib() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0])

    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    before = anonymous_kib()
    x = map_archive(path)["x"]
    assert float(x[:, 7].sum()) == 4096  # touches every page row by row
    assert float(np.asarray(x).max()) == 1
    assert anonymous_kib() - before < 8 * 1024  # of the array's 64 MiB


def test_rows_are_counted_and_a_failed_archive_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with (
        pytest.raises(ValueError, match="2 rows written, 3 announced"),
        ArchiveWriter(path) as writer,
        writer.member("x", (3, 2), np.float32) as sink,
    ):
        sink.append(np.zeros((2, 2)))
    assert list(tmp_path.iterdir()) == []


def test_a_compressed_member_is_refused_and_unpack_cures_it(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    packed, stored = tmp_path / "packed.npz", tmp_path / "stored.npz"
    np.savez_compressed(packed, x=values)
    with pytest.raises(BadDataError, match=r"packed\.npz: x: the array is compressed") as error:
        map_archive(packed)
    assert "twotower unpack" in str(error.value)
    unpack_archive(packed, stored, chunk_bytes=40)
    np.testing.assert_array_equal(map_archive(stored)["x"], values)


def test_pickles_and_column_order_are_refused(tmp_path: Path) -> None:
    objects, columns = tmp_path / "objects.npz", tmp_path / "columns.npz"
    np.savez(objects, x=np.array([{"a": 1}], dtype=object))
    np.savez(columns, x=np.asfortranarray(np.zeros((3, 4))))
    with pytest.raises(BadDataError, match="Python objects"):
        map_archive(objects)
    with pytest.raises(BadDataError, match="column by column"):
        map_archive(columns)


@given(cut=st.floats(0.02, 0.98))
@settings(max_examples=30, deadline=None)
def test_a_file_cut_short_is_refused_wherever_the_cut_is(cut: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        np.savez(path, x=np.zeros((50, 20), np.float32), y=np.ones((30, 10), np.float32))
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * cut)])
        with pytest.raises(BadDataError) as error:
            map_archive(path)
        assert str(path) in str(error.value)


def test_a_file_cut_short_names_the_array_and_the_row(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((100, 25), np.float32))
    path.write_bytes(path.read_bytes()[:5200])  # a header of under 200, then rows of 100 bytes
    with pytest.raises(BadDataError, match=r"x\[50\]: .*100 rows announced, 50 are there"):
        map_archive(path)


def test_what_is_no_archive_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"not a zip")
    with pytest.raises(BadDataError, match="not a whole"):
        map_archive(path)
    with pytest.raises(BadDataError, match="no such file"):
        map_archive(tmp_path / "missing.npz")
