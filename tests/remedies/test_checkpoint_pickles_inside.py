"""A pickle is looked at wherever loading would unpickle it: in arrays, archives and streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from rerail.checkpoints.check import check_checkpoint

HARMLESS = {"step": 3, "names": ["a", "b"]}


class Hostile:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch it-was-executed",)


def array(content: Any) -> bytes:
    file = io.BytesIO()
    numpy.save(file, numpy.array([content, None], dtype=object), allow_pickle=True)
    return file.getvalue()


def fields(content: Any) -> bytes:
    file = io.BytesIO()
    table = numpy.zeros(1, dtype=[("number", "f4"), ("inner", [("thing", object, (1,))])])
    table["inner"]["thing"][0] = content
    numpy.save(file, table, allow_pickle=True)
    return file.getvalue()


def npz(content: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("first.npy", plain_array())
        archive.writestr("second.npy", array(content))
    return file.getvalue()


def plain_array() -> bytes:
    file = io.BytesIO()
    numpy.save(file, numpy.arange(5.0))
    return file.getvalue()


def tar(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in (("weights.npy", plain_array()), ("state.pkl", content)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("state.pkl", content)
    return file.getvalue()


def deflated_npz(content: Any) -> bytes:
    return npz(content, zipfile.ZIP_DEFLATED)


HOLDERS: dict[str, Callable[[Any], bytes]] = {
    "array.npy": array,
    "fields.npy": fields,
    "stored.npz": npz,
    "deflated.npz": deflated_npz,
    "state.pkl.gz": lambda content: gzip.compress(pickle.dumps(content)),
    "state.pkl.bz2": lambda content: bz2.compress(pickle.dumps(content)),
    "state.pkl.xz": lambda content: lzma.compress(pickle.dumps(content)),
    "array.npy.gz": lambda content: gzip.compress(array(content)),
    "state.tar": lambda content: tar(pickle.dumps(content)),
    "arrays.tar": lambda content: tar(array(content)),
    "archive.tar": lambda content: tar(npz(content)),
    "state.tar.gz": lambda content: gzip.compress(tar(pickle.dumps(content))),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_would_be_executed_is_refused_and_what_programs_save_is_sound(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(HOLDERS[name](HARMLESS))
    assert check_checkpoint(path).problem is None
    path.write_bytes(HOLDERS[name](Hostile()))
    assert "system" in (check_checkpoint(path).problem or "")


@pytest.mark.parametrize("name", ["array.npy", "fields.npy"])
def test_an_array_of_objects_that_was_cut_off_is_not_sound(name: str, tmp_path: Path) -> None:
    whole = HOLDERS[name](HARMLESS)
    path = tmp_path / name
    path.write_bytes(whole[:-3])
    assert check_checkpoint(path).problem is not None


@pytest.mark.parametrize("descr", ["object", "O8", "f4,O", ">O", [("a", "object")]])
def test_a_type_that_is_spelled_in_another_way_is_no_way_around(descr: Any, tmp_path: Path) -> None:
    header = repr({"descr": descr, "fortran_order": False, "shape": (1,)}).encode() + b"\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = tmp_path / "array.npy"
    path.write_bytes(start + pickle.dumps(Hostile()))
    assert "system" in (check_checkpoint(path).problem or "")


def test_what_is_not_looked_at_is_told(tmp_path: Path) -> None:
    twice = tmp_path / "twice.gz"
    twice.write_bytes(gzip.compress(gzip.compress(pickle.dumps(Hostile()))))
    assert check_checkpoint(twice).unchecked == "what it holds, which is compressed once more"
    inside = tmp_path / "inside.tar"
    inside.write_bytes(tar(gzip.compress(pickle.dumps(Hostile()))))
    assert "state.pkl" in (check_checkpoint(inside).unchecked or "")


@pytest.mark.parametrize(
    "name", ["zip in zip", "gzip in zip", "zlib", "zlib in tar", "zlib in zip"]
)
def test_a_pickle_that_is_packed_once_more_is_told(name: str, tmp_path: Path) -> None:
    pickled = pickle.dumps(Hostile())
    holders = {
        "zip in zip": zipped(zipped(pickled)),
        "gzip in zip": zipped(gzip.compress(pickled)),
        "zlib": zlib.compress(pickled),  # joblib's default
        "zlib in tar": tar(zlib.compress(pickled)),
        "zlib in zip": zipped(zlib.compress(pickled)),
    }
    (tmp_path / "state").write_bytes(holders[name])
    found = check_checkpoint(tmp_path / "state")
    assert found.problem is None
    assert "packed" in str(found.unchecked) or "compressed" in str(found.unchecked)


@pytest.mark.parametrize("content", [Hostile(), {"inner": Hostile()}, [Hostile()]])
def test_a_pickle_of_the_first_protocols_is_not_sound(content: Any, tmp_path: Path) -> None:
    """They have no signature."""
    for protocol in (0, 1):
        (tmp_path / "state.pkl").write_bytes(pickle.dumps(content, protocol))
        assert check_checkpoint(tmp_path / "state.pkl").problem, protocol
    (tmp_path / "state.pkl").write_bytes(pickle.dumps((1, content), 0))
    assert check_checkpoint(tmp_path / "state.pkl").unchecked == "what it holds"


@pytest.mark.parametrize("dtype", ["f4", ">i8", "U5", "S3", "M8[ns]", "m8[25s]", "?", "V6", "c16"])
def test_plain_arrays_are_sound(dtype: str, tmp_path: Path) -> None:
    numpy.save(tmp_path / "plain.npy", numpy.zeros(3, dtype=dtype))
    numpy.save(tmp_path / "table.npy", numpy.zeros(3, dtype=[("O", dtype), ("b", dtype, (2,))]))
    assert check_checkpoint(tmp_path / "plain.npy").problem is None
    assert check_checkpoint(tmp_path / "table.npy").problem is None
