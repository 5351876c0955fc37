"""Does NumPy map it or load it: headers against NumPy's own, memory against what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.errors import UnreadableInput
from rerail.preflight.memory.array_file import measure, read_array_file

np = pytest.importorskip("numpy")
MIB = 1 << 20

dtypes = st.sampled_from(["<f4", "<f8", "<i2", "|u1", "<c8", "|b1", "<U7", "|S5", "<M8[s]", "<f2"])
shapes = st.lists(st.integers(0, 6), max_size=3).map(tuple)


@settings(max_examples=60, deadline=None)
@given(dtype=dtypes, shape=shapes, compressed=st.booleans())
def test_headers_are_read_as_numpy_wrote_them(
    dtype: str, shape: tuple[int, ...], compressed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("arrays")
    array = np.zeros(shape, dtype)
    np.save(folder / "a.npy", array)
    save = np.savez_compressed if compressed else np.savez
    save(folder / "a.npz", first=array, second=np.arange(3))
    alone = read_array_file(folder / "a.npy")
    assert (alone.members[0].shape, alone.memory_bytes) == (shape, array.nbytes)
    assert not alone.is_loaded
    both = read_array_file(folder / "a.npz")
    assert [m.name for m in both.members] == ["first", "second"]
    assert both.members[0].memory_bytes == array.nbytes
    assert both.is_loaded and both.is_compressed == compressed


def test_a_record_counts_all_its_fields(tmp_path: Path) -> None:
    array = np.zeros(10, [("a", "<f4"), ("b", "<i8", (2, 3)), ("c", "|S4")])
    np.save(tmp_path / "r.npy", array)
    assert read_array_file(tmp_path / "r.npy").memory_bytes == array.nbytes


def test_what_an_archive_takes_is_measured(tmp_path: Path) -> None:
    array = np.ones((4 * MIB,), np.float32)
    np.savez_compressed(tmp_path / "c.npz", a=array)
    found = measure(read_array_file(tmp_path / "c.npz"), [sys.executable], None)
    assert found.private_bytes is not None
    assert 15 * MIB < found.private_bytes < 24 * MIB
    assert "compressed" in found.in_one_line() and "measured" in found.in_one_line()
    assert "\n" not in found.in_one_line()
    np.save(tmp_path / "m.npy", array)
    mapped = measure(read_array_file(tmp_path / "m.npy"), [sys.executable], None)
    assert mapped.private_bytes is not None and mapped.private_bytes < 6 * MIB
    assert mapped.mapped_bytes is not None and mapped.mapped_bytes > 15 * MIB
    assert "mappable" in mapped.in_one_line()


def test_what_does_not_fit_is_not_loaded(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "c.npz", a=np.zeros(8 * MIB, np.uint8))
    found = measure(read_array_file(tmp_path / "c.npz"), [sys.executable], 4 * MIB)
    assert found.private_bytes is None and "by its headers" in found.in_one_line()
    assert found.finding(4 * MIB).level == "fatal"
    assert found.finding(12 * MIB).level == "risky"
    assert found.finding(None).level == "fine"


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_anything_else_is_unreadable_input(content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(content)
        file.flush()
        with pytest.raises(UnreadableInput):
            read_array_file(Path(file.name))
    with pytest.raises(UnreadableInput):
        read_array_file(Path("/nowhere/at/all.npz"))


def test_python_objects_are_never_called_mappable(tmp_path: Path) -> None:
    array = np.array([{"a": 1}, None], dtype=object)
    np.savez(tmp_path / "o.npz", a=array)
    np.save(tmp_path / "o.npy", array)
    np.save(tmp_path / "r.npy", np.zeros(3, [("name", "O"), ("value", "<f4")]))
    for name in ("o.npz", "o.npy", "r.npy"):
        found = read_array_file(tmp_path / name)
        assert found.is_loaded and not found.to_json()["is_mappable"]
        assert "objects" in found.in_one_line()


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    np.savez(whole, a=np.zeros(1000))
    (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:2000])
    (tmp_path / "empty.npz").touch()
    for name, words in [
        ("cut.npz", "cut short"),
        ("empty.npz", "it is empty"),
        ("none.npz", "there is no file"),
    ]:
        with pytest.raises(UnreadableInput, match=words):
            read_array_file(tmp_path / name)
