"""Whether a checkpoint would load, found out without executing anything in it."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.checkpoints.check import UNKNOWN, check_checkpoint

torch = pytest.importorskip("torch")


def state() -> dict[str, object]:
    return {
        "model": OrderedDict(
            weight=torch.arange(12.0).reshape(3, 4),
            half=torch.zeros(5, dtype=torch.bfloat16),
            shared=torch.arange(12.0).reshape(3, 4).t(),
        ),
        "step": 40,
        "rng": torch.get_rng_state(),
    }


def safetensors_bytes() -> bytes:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "c": {"dtype": "BOOL", "shape": [3], "data_offsets": [32, 35]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(35)


def hdf5_bytes() -> bytes:
    """A superblock of version 0 whose end of file is at 200, as h5py writes it."""
    block = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
    block += struct.pack("<QQQQ", 0, 2**64 - 1, 200, 2**64 - 1)
    return block + b"\1" * (200 - len(block))


def torch_zip() -> bytes:
    buffer = io.BytesIO()
    torch.save(state(), buffer)
    return buffer.getvalue()


def torch_old() -> bytes:
    buffer = io.BytesIO()
    torch.save(state(), buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def npz(compressed: bool) -> Callable[[], bytes]:
    def write() -> bytes:
        buffer = io.BytesIO()
        save = numpy.savez_compressed if compressed else numpy.savez
        save(buffer, a=numpy.arange(50.0), b=numpy.ones((3, 3), numpy.int32))
        return buffer.getvalue()

    return write


def npy() -> bytes:
    buffer = io.BytesIO()
    numpy.save(buffer, numpy.arange(50.0))
    return buffer.getvalue()


def nested_zip() -> bytes:
    """The archive inside ends where a cut could leave it."""
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a", "inner")
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("first", "outer")
        archive.writestr("inner.zip", inner.getvalue())
    return outer.getvalue()


SOUND: dict[str, tuple[str, Callable[[], bytes]]] = {
    "torch": ("a.pt", torch_zip),
    "torch-old": ("a.pth", torch_old),
    "npz": ("a.npz", npz(False)),
    "npz-compressed": ("a.npz", npz(True)),
    "npy": ("a.npy", npy),
    "nested": ("a.zip", nested_zip),
    "safetensors": ("model.safetensors", safetensors_bytes),
    "hdf5": ("a.h5", hdf5_bytes),
    "pickle": ("a.pkl", lambda: pickle.dumps({"a": [1, 2, 3], "b": "text" * 100})),
    "json": ("state.json", lambda: json.dumps({"step": 40, "loss": [0.5] * 20}).encode()),
}


@cache
def sound(kind: str) -> tuple[str, bytes]:
    name, write = SOUND[kind]
    return name, write()


@pytest.mark.parametrize("kind", SOUND)
def test_a_whole_one_is_sound(kind: str, tmp_path: Path) -> None:
    name, data = sound(kind)
    path = tmp_path / name
    path.write_bytes(data)
    found = check_checkpoint(path)
    assert found.problem is None
    assert found.kind != UNKNOWN
    assert found.size_bytes == len(data)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kind=st.sampled_from(sorted(SOUND)), share=st.floats(0.0, 1.0, exclude_max=True))
def test_one_cut_off_at_any_byte_is_torn(kind: str, share: float, tmp_path: Path) -> None:
    name, data = sound(kind)
    path = tmp_path / name
    path.write_bytes(data[: int(share * len(data))])
    assert not check_checkpoint(path).is_sound


@pytest.mark.parametrize("kind", ["torch", "npz", "nested", "torch-old"])
def test_the_first_and_last_bytes_count(kind: str, tmp_path: Path) -> None:
    name, data = sound(kind)
    path = tmp_path / name
    for length in [*range(64), *range(len(data) - 64, len(data))]:
        path.write_bytes(data[:length])
        assert not check_checkpoint(path).is_sound, length


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.floats(0.0, 1.0, exclude_max=True), flip=st.integers(1, 255))
def test_tensor_bytes_that_changed_are_seen(at: float, flip: int, tmp_path: Path) -> None:
    name, data = sound("torch")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = next(each for each in archive.infolist() if each.filename.endswith("/data/0"))
        with archive.open(info) as stream:
            begin = data.index(stream.read())
    changed = bytearray(data)
    changed[begin + int(at * info.file_size)] ^= flip
    path = tmp_path / name
    path.write_bytes(bytes(changed))
    assert not check_checkpoint(path).is_sound


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    head=st.sampled_from(
        [
            *(b"", b"PK\x03\x04", b"PK\x05\x06", b"\x80\x02", b"\x80\x04", b"\x93NUMPY\x01\x00"),
            *(b"\x89HDF\r\n\x1a\n", b"\x10\0\0\0\0\0\0\0{", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ"),
        ]
    ),
    rest=st.binary(max_size=300),
    name=st.sampled_from(["a.pt", "a", "a.json", "a.safetensors", "a.npz", "a.ckpt"]),
)
def test_any_bytes_give_an_answer(head: bytes, rest: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(head + rest)
    found = check_checkpoint(path)
    assert found.problem is None or found.problem


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("as_zip", [True, False])
def test_a_malicious_pickle_is_not_executed_and_not_chosen(as_zip: bool, tmp_path: Path) -> None:
    path, touched = tmp_path / "evil.pt", tmp_path / "touched"
    torch.save({"model": Evil(touched)}, path, _use_new_zipfile_serialization=as_zip)
    found = check_checkpoint(path)
    assert not touched.exists()
    assert found.problem is not None and "system" in found.problem


def test_torch_without_checksums_is_checked_for_its_structure(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state(), path)
    finally:
        torch.serialization.set_crc32_options(before)
    found = check_checkpoint(path)
    assert found.problem is None and "without checksums" in found.kind
    path.write_bytes(path.read_bytes()[:-1])
    assert not check_checkpoint(path).is_sound


def test_a_storage_that_is_missing_is_named(tmp_path: Path) -> None:
    _, data = sound("torch")
    path = tmp_path / "a.pt"
    with (
        zipfile.ZipFile(io.BytesIO(data)) as whole,
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as less,
    ):
        for name in whole.namelist():
            if not name.endswith("/data/1"):
                less.writestr(name, whole.read(name))
    found = check_checkpoint(path)
    assert found.problem is not None and "data/1" in found.problem


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.pt", b"", "empty"),
        ("a.bin", bytes(4096), "zeros"),
        ("a.bin", b"data" + bytes(4096), "zeros"),
        ("a.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
        ("a.pt", b"<html>not found</html>", "does not begin"),
    ],
)
def test_what_is_no_checkpoint_is_said(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    found = check_checkpoint(path)
    assert found.problem is not None and words in found.problem


def test_other_formats_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.msgpack"
    path.write_bytes(b"\x82\xa1a\x01\xa1b\x02")
    assert check_checkpoint(path).kind == UNKNOWN and check_checkpoint(path).is_sound


def test_a_tar_archive_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("weights")
        info.size = 5000
        archive.addfile(info, io.BytesIO(bytes(range(250)) * 20))
    assert check_checkpoint(path).is_sound
    path.write_bytes(path.read_bytes()[:3000])
    assert not check_checkpoint(path).is_sound


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    os.mkfifo(path)
    assert not check_checkpoint(path).is_sound


def test_a_folder_is_as_sound_as_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-500"
    folder.mkdir()
    assert not check_checkpoint(folder).is_sound
    (folder / "model-1.safetensors").write_bytes(safetensors_bytes())
    (folder / "optimizer.pt").write_bytes(sound("torch")[1])
    (folder / "done").touch()
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-2.safetensors" in str(check_checkpoint(folder).problem)
    (folder / "model-2.safetensors").write_bytes(safetensors_bytes())
    assert check_checkpoint(folder).is_sound
    (folder / "optimizer.pt").write_bytes(sound("torch")[1][:-100])
    assert "optimizer.pt" in str(check_checkpoint(folder).problem)
