"""A file that is made to take time or memory gets an answer; an honest large one is still used."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.checkpoints import check as checkpoints
from rerail.checkpoints.check import check_checkpoint
from rerail.checkpoints.choose import choose_checkpoint
from rerail.checkpoints.formats import budget, zip_archive
from rerail.checkpoints.formats.budget import Budget

_MEGABYTES = 16
_CHECK = """
import resource, sys
from pathlib import Path
from rerail.checkpoints.check import check_checkpoint
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
found = check_checkpoint(Path(sys.argv[1]))
print("sound" if found.is_sound else found.problem)
"""


def zip_bomb() -> bytes:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("archive/data/0", "w") as member,
    ):
        for _ in range(300):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


def overlapping_zip() -> bytes:
    """Many names for the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", bytes(10_000))
        first = archive.infolist()[0]
        for number in range(1000):
            other = zipfile.ZipInfo(f"b{number}")
            other.CRC, other.file_size, other.compress_size = (
                first.CRC,
                first.file_size,
                first.compress_size,
            )
            other.header_offset = 0
            archive.filelist.append(other)
    return buffer.getvalue()


def many(piece: bytes, before: bytes = b"\x80\x04", after: bytes = b"") -> Callable[[], bytes]:
    return lambda: before + piece * ((_MEGABYTES << 20) // len(piece)) + after


HEAVY: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "marks": ("a.pt", many(b"("), "nested deeper"),
    "marks and pops": ("a.pt", many(b"(1", after=b"N."), ""),
    "numbers": ("a.pt", many(b"J\1\2\3\4"), ""),
    "memo": ("a.pt", many(b"\x94", before=b"\x80\x04N"), "not checked to the end"),
    "texts": ("a.pt", many(b"\x8c\x08abcdefgh\x94"), ""),
    "tuples": ("a.pt", many(b"(NNNNNNNNt\x94"), ""),
    "bytes": ("a.pt", many(b"C\x40" + b"a" * 64 + b"\x94"), ""),
    "pickles": ("a.pt", many(b"\x80\x04N.", before=b""), ""),
    "zip bomb": ("a.pt", zip_bomb, "unpack to"),
    "overlapping zip": ("a.pt", overlapping_zip, "of another member"),
    "gzip bomb": ("a.pt.gz", lambda: gzip.compress(bytes(300 << 20)), "unpack to"),
    "JSON lists": ("a.json", many(b"[],", before=b"[", after=b"0]"), "sound"),
    "deep JSON": ("a.json", many(b"[", before=b""), "JSON"),
    "safetensors": (
        "a.safetensors",
        lambda: struct.pack("<Q", 7 << 20) + b"[" + b'{"":0},' * ((7 << 20) // 7 - 1) + b"    0]",
        "header",
    ),
    "shape": (
        "a.safetensors",
        lambda: struct.pack("<Q", len(SHAPE)) + SHAPE + bytes(8),
        "header",
    ),
    "tar": ("a.tar", many(tarfile.TarInfo("x").tobuf(), before=b"", after=bytes(1024)), "sound"),
    "tar with a long name": ("a.tar", lambda: long_tar_name(), "longer than any name"),
}
SHAPE = json.dumps(
    {"a": {"dtype": "F32", "shape": [10**4000] * 500, "data_offsets": [0, 8]}}
).encode()


def long_tar_name() -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 20 << 20
    return info.tobuf() + bytes(20 << 20) + tarfile.TarInfo("y").tobuf() + bytes(1024)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory holds on Linux")
@pytest.mark.parametrize("kind", HEAVY)
def test_one_made_to_take_time_or_memory_gets_an_answer(kind: str, tmp_path: Path) -> None:
    name, write, words = HEAVY[kind]
    path = tmp_path / name
    path.write_bytes(write())
    limit = str(1200 << 20)  # a gigabyte, and what the interpreter has mapped before
    ended = subprocess.run(
        [sys.executable, "-c", _CHECK, str(path), limit],
        capture_output=True,
        text=True,
        timeout=240,  # a guard against waiting for ever; the bounds are of processor time
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert words in ended.stdout and "cannot be read (" not in ended.stdout


@pytest.mark.parametrize("data", [b"\x80\x04" + b"N0" * 5000 + b"N.", b"\x80\x04N." * 5000])
def test_a_pickle_that_takes_too_long_is_not_read_to_its_end(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(data)
    assert check_checkpoint(path).is_sound
    monkeypatch.setattr(budget, "_MOST_OPCODE_SECONDS", 0.0)
    assert "not checked to the end: its pickle" in str(check_checkpoint(path).problem)


class NoTime(Budget):
    def can_read_on(self) -> bool:
        return False


def test_bytes_that_time_did_not_allow_to_compare_are_said_and_the_checkpoint_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save({"a": torch.ones(1000)}, path)
    monkeypatch.setattr(checkpoints, "Budget", NoTime)
    found = choose_checkpoint("*.pt", tmp_path).chosen
    assert found is not None and found.kind == "torch checkpoint"
    assert any("not checked to the end: 0 of" in remark for remark in found.remarks)
    # Structure comes first, so that it is known even then.
    path.write_bytes(path.read_bytes()[:-1])
    assert not check_checkpoint(path).is_sound


def test_a_large_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_archive, "_LARGEST_DIRECTORY_BYTES", 1000)
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(100):
            archive.writestr(str(number), b"")
    assert "not checked to the end: its directory" in str(check_checkpoint(path).problem)


@pytest.mark.skipif("coverage" in sys.modules, reason="coverage slows every opcode down")
def test_a_large_pickle_of_numbers_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    history = [{"loss": step / 7, "step": step} for step in range(100_000)]
    path.write_bytes(pickle.dumps(history))
    assert check_checkpoint(path).is_sound and not check_checkpoint(path).remarks


def test_many_tensors_are_read_to_their_end(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    torch.save({f"layer.{number}.weight": torch.zeros(3) for number in range(3000)}, path)
    assert check_checkpoint(path).is_sound and not check_checkpoint(path).remarks
