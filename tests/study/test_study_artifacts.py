"""Artifacts arrive whole and under their own name, or not at all."""

from __future__ import annotations

import json
import pickle
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.study import artifacts
from rerail.study.completeness import what_is_wrong


def test_collected_files_have_checksums_and_leave_the_working_folder(tmp_path: Path) -> None:
    work, target = tmp_path / "work", tmp_path / "results" / "cell"
    (work / "w").mkdir(parents=True)
    (work / "w" / "a.txt").write_text("one")
    (work / "log.txt").write_text("stays")
    files = artifacts.collect(work, target, ["w/*"], {"cell": "cell"})
    assert [each.path for each in files] == ["w/a.txt"]
    assert (target / "w" / "a.txt").read_text() == "one"
    assert (work / "w" / "a.txt").exists(), "the original stays until the move is on record"
    manifest = artifacts.read_manifest(target)
    assert manifest is not None and manifest["cell"] == "cell"
    artifacts.forget_originals(work, target, manifest["files"])
    assert not (work / "w").exists() and (work / "log.txt").exists()
    assert artifacts.what_is_missing(target) == []
    (target / "w" / "a.txt").touch()
    assert artifacts.what_is_missing(target) == [], "younger, and the same"
    (target / "w" / "a.txt").write_text("two")
    assert artifacts.what_is_missing(target) == [f"{target / 'w' / 'a.txt'} is gone or was changed"]


def test_results_that_are_there_are_never_overwritten(tmp_path: Path) -> None:
    work, target = tmp_path / "work", tmp_path / "results" / "cell"
    work.mkdir()
    target.mkdir(parents=True)
    (work / "a.txt").write_text("new")
    (target / "a.txt").write_text("old")
    with pytest.raises(artifacts.ResultsInTheWay):
        artifacts.collect(work, target, ["a.txt"], {})
    assert (target / "a.txt").read_text() == "old"
    assert (work / "a.txt").read_text() == "new"
    assert sorted(p.name for p in target.parent.iterdir()) == ["cell"]


def test_inputs_are_not_collected_and_links_are_what_they_point_to(tmp_path: Path) -> None:
    work, target = tmp_path / "work", tmp_path / "results" / "cell"
    work.mkdir()
    (tmp_path / "data.txt").write_text("everybody's")
    (work / "data.txt").symlink_to(tmp_path / "data.txt")
    (work / "epoch3.txt").write_text("weights")
    (work / "last.txt").symlink_to("epoch3.txt")
    files = artifacts.collect(work, target, ["*.txt"], {})
    assert [each.path for each in files] == ["epoch3.txt", "last.txt"]
    assert not (target / "last.txt").is_symlink()
    assert (target / "last.txt").read_text() == "weights"


def test_another_file_system_gets_a_copy(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one")
    with tempfile.TemporaryDirectory(dir=other) as results:
        target = Path(results) / "cell"
        artifacts.collect(work, target, ["a.txt"], {})
        assert (work / "a.txt").exists() and (target / "a.txt").read_text() == "one"
        manifest = artifacts.read_manifest(target)
        assert manifest is not None
        artifacts.forget_originals(work, target, manifest["files"])
        assert not (work / "a.txt").exists() and artifacts.what_is_missing(target) == []


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text('{"a": ')
    found = artifacts.complaints(tmp_path, ["a/*.pt", "b.json"])
    assert found[0] == "there is no a/*.pt" and found[1].startswith("b.json: ")


def test_what_a_killed_study_had_begun_to_collect_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".collecting-cell").mkdir()
    (tmp_path / ".collecting-cell" / "a").touch()
    artifacts.sweep_staging(tmp_path)
    assert list(tmp_path.iterdir()) == []


def whole_files() -> dict[str, bytes]:
    import gzip
    import io

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("weights.txt", b"x" * 3000)
    header = json.dumps({"w": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()
    npy = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }".ljust(117) + b"\n"
    chunk = b"IHDR" + bytes(13)
    png = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return {
        "a.pt": archive.getvalue(),
        "a.npz": archive.getvalue(),
        "a.pkl": pickle.dumps(list(range(500))),
        "a.safetensors": struct.pack("<Q", len(header)) + header + bytes(32),
        "a.npy": b"\x93NUMPY\x01\x00" + struct.pack("<H", len(npy)) + npy + bytes(32),
        "a.json": b'{"psnr": [1, 2, 3]}',
        "a.gz": gzip.compress(bytes(range(256)) * 20),
        "a.png": b"\x89PNG\r\n\x1a\n" + png + b"\0\0\0\0IEND\xaeB`\x82",
        "a.jpg": b"\xff\xd8\xff\xe0" + bytes(200) + b"\xff\xd9",
    }


@pytest.mark.parametrize("name", sorted(whole_files()))
def test_a_whole_file_passes_and_a_cut_one_does_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data = whole_files()[name]
    path.write_bytes(data)
    assert what_is_wrong(path) is None
    for part in (0, len(data) // 3, len(data) - 1):
        path.write_bytes(data[:part])
        assert what_is_wrong(path) is not None, f"{part} of {len(data)} bytes"


@given(st.binary(max_size=300), st.sampled_from([".pt", ".npz", ".npy", ".safetensors", ".pkl"]))
def test_no_bytes_can_make_the_check_fail(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(data)
    what_is_wrong(path)


def test_jsonl_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    assert what_is_wrong(path) == "line 2 is not JSON"
