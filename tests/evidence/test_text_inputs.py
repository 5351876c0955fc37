"""What people hand over as a log: packed, in folders, as notebooks, damaged, hostile."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.errors import UnreadableInput
from rerail.evidence import Inputs, find_inputs, inputs_of_stream
from rerail.evidence.text import archives, file_heads, inputs, unpacking
from rerail.platform.deadline import Deadline

TEXT = b"".join(b"step %d loss 0.%d\n" % (at, at) for at in range(200))
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def read_all(found: Inputs) -> dict[str, bytes]:
    texts = {}
    for log in found.logs:
        with log.open("rb") as file:
            texts[log.name] = file.read()
    return texts


def of_bytes(raw: bytes) -> Inputs:
    return inputs_of_stream(io.BytesIO(raw), "pipe", 600.0)  # however busy the machine is


def zipped(**members: bytes) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return raw.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w", **links: str) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode=mode) as archive:  # type: ignore[call-overload]
        for name, target in links.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return raw.getvalue()


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_compressed_log_is_read_from_a_file_and_from_a_pipe(
    kind: str, count: int, tmp_path: Path
) -> None:
    """Several that were written one after the other are one text, as `zcat` has it."""
    packed = COMPRESSIONS[kind](TEXT) * count
    path = tmp_path / "named-like-anything"
    path.write_bytes(packed)
    assert read_all(find_inputs([path])) == {path.name: TEXT * count}
    assert read_all(of_bytes(packed)) == {"pipe": TEXT * count}


def test_a_large_block_of_bzip2_is_recognised_as_text(tmp_path: Path) -> None:
    raw = os.urandom(300_000).hex().encode()  # nothing of it comes out before 200 KB went in
    path = tmp_path / "a.bz2"
    path.write_bytes(bz2.compress(raw))
    assert read_all(find_inputs([path])) == {"a.bz2": raw}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_of_a_log_that_was_cut_off_the_beginning_is_read(kind: str, tmp_path: Path) -> None:
    raw = os.urandom(1_000_000).hex().encode()  # more than one block of bzip2
    packed = COMPRESSIONS[kind](raw)
    path = tmp_path / "a.packed"
    path.write_bytes(packed[: len(packed) * 9 // 10])
    found = find_inputs([path])
    text = read_all(found)["a.packed"]
    assert len(text) > len(raw) // 4 and raw.startswith(text)
    assert "cut off" in found.incomplete


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python unpacks zstd")
def test_a_compression_that_this_python_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(40))
    with pytest.raises(UnreadableInput) as refused:
        find_inputs([path])
    assert "zstd" in refused.value.message
    assert f"zstd -dc {path} | rerail explain -" in refused.value.help_text


def test_bytes_behind_a_compressed_log_do_no_harm() -> None:
    assert read_all(of_bytes(gzip.compress(TEXT) + bytes(1000))) == {"pipe": TEXT}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "pack",
    [
        lambda members: zipped(**members),
        lambda members: tarred(members),
        lambda members: tarred(members, "w:gz"),
        lambda members: tarred(members, "w:xz"),
        lambda members: tarred(members, "w:bz2"),
    ],
    ids=["zip", "tar", "tar.gz", "tar.xz", "tar.bz2"],
)
def test_logs_in_an_archive(pack: Callable[[dict[str, bytes]], bytes], tmp_path: Path) -> None:
    packed = pack(
        {
            "job/0/stderr.log": TEXT,
            "job/1/stderr.log": TEXT * 5000,
            "job/2/stderr.log.gz": gzip.compress(TEXT),
            "job/model.pt": os.urandom(2000),
            "job/unnamed": os.urandom(2000),
            "job/train.py": b"raise MemoryError('CUDA out of memory')\n",
            "job/old.zip": zipped(**{"a.log": TEXT}),
            "job/empty.log": b"",
        }
    )
    path = tmp_path / "packed"
    path.write_bytes(packed)
    for found in (find_inputs([path]), of_bytes(packed)):
        assert read_all(found) == {
            "job/0/stderr.log": TEXT,
            "job/1/stderr.log": TEXT * 5000,
            "job/2/stderr.log.gz": TEXT,
        }
        assert [log.open().read(100) for log in reversed(found.logs)] == [TEXT[:100]] * 3
        why = dict(found.skipped)
        assert why["job/old.zip"] == "an archive inside an archive"
        assert why["job/empty.log"] == "empty" and why["job/unnamed"] == "not text"
        assert set(why) == {
            *("job/model.pt", "job/unnamed", "job/train.py", "job/old.zip", "job/empty.log")
        }
    assert list(tmp_path.iterdir()) == [path], "nothing is unpacked to the disk"


def test_links_and_devices_in_a_tar_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_bytes(TEXT)
    packed = tarred({"real.log": TEXT}, link=str(tmp_path / "secret.log"), passwd="/etc/passwd")
    found = of_bytes(packed)
    assert list(read_all(found)) == ["real.log"]
    assert found.skipped == [("link", "a link"), ("passwd", "a link")]


def test_links_and_encrypted_members_of_a_zip_are_passed_over() -> None:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        link = zipfile.ZipInfo("link.log")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("real.log", TEXT)
        archive.writestr("locked.log", TEXT)
    packed = bytearray(raw.getvalue())
    packed[packed.rfind(b"PK\x01\x02") + 8] |= 1  # the flag in the list at the end
    found = of_bytes(bytes(packed))
    assert list(read_all(found)) == ["real.log"]
    assert found.skipped == [("link.log", "a link"), ("locked.log", "encrypted")]


def test_a_checkpoint_of_torch_is_no_archive_of_logs(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(zipped(**{"archive/data.pkl": b"\x80\x02", "archive/version": b"3\n"}))
    with pytest.raises(UnreadableInput, match="is a checkpoint, not a log"):
        find_inputs([path])


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(b"step 1\n" * 1_000_000),
        zipped(**{"a.log": b"step 1\n" * 1_000_000}),
        tarred({"a.log": b"step 1\n" * 1_000_000}, "w:gz"),
    ],
    ids=["gzip", "zip", "tar.gz"],
)
def test_what_unpacks_to_very_much_is_read_up_to_the_bound(
    packed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST_UNPACKED_BYTES", 1 << 20)
    found = of_bytes(packed)
    (text,) = read_all(found).values()
    assert (1 << 20) - 1024 <= len(text) <= (1 << 20) + file_heads.BLOCK_BYTES
    assert "unpacks to more than 1 MiB" in found.incomplete


def test_when_the_time_is_over_nothing_more_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT * 5000))
    found = find_inputs([path], Deadline(0.0))
    assert read_all(found) == {"a.gz": b""}
    assert "the rest of" in found.deadline.sentence


def test_an_archive_of_very_many_members_is_read_up_to_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 5)
    for packed in (
        zipped(**{f"{at}.log": TEXT for at in range(9)}),
        tarred({f"{at}.log": TEXT for at in range(9)}),
    ):
        found = of_bytes(packed)
        assert len(found.logs) == 5 and "more than 5 members" in found.incomplete


def test_a_huge_list_of_members_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archives, "MOST_AT_ONCE_BYTES", 1 << 17)
    with pytest.raises(UnreadableInput, match="headers that are too large"):
        of_bytes(zipped(**{f"{'x' * 200}{at}.log": b"" for at in range(1000)}))
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.log")
        info.pax_headers = {"comment": "x" * (1 << 18)}
        archive.addfile(info)
    with pytest.raises(UnreadableInput, match="headers that are too large"):
        of_bytes(raw.getvalue())


def test_a_tar_whose_header_points_backwards_ends() -> None:
    packed = bytearray(tarred({"a.log": TEXT, "b.log": TEXT}))
    at = 512 + (len(TEXT) + 511) // 512 * 512  # the header of the second
    packed[at + 124 : at + 136] = b"\xff" * 4 + (-4096).to_bytes(8, "big", signed=True)
    blank = packed[at : at + 148] + b" " * 8 + packed[at + 156 : at + 512]
    packed[at + 148 : at + 156] = b"%06o\0 " % sum(blank)
    found = of_bytes(bytes(packed))
    assert list(read_all(found)) == ["a.log"]


def test_of_a_tar_that_was_cut_off_the_first_logs_are_read() -> None:
    packed = tarred({"a.log": TEXT, "b.log": os.urandom(200_000).hex().encode()}, "w:gz")
    found = of_bytes(packed[: len(packed) // 2])
    texts = read_all(found)
    assert texts["a.log"] == TEXT and 0 < len(texts["b.log"]) < 400_000
    assert "cut off" in found.incomplete


def notebook(streams: list[str], *errors: dict[str, Any]) -> dict[str, Any]:
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
        for text in streams
    ]
    outputs += [{"output_type": "error", **error} for error in errors]
    return {
        "cells": [
            {"cell_type": "markdown", "source": ["RuntimeError: CUDA out of memory"]},
            {"cell_type": "code", "source": ["raise KeyError"], "outputs": outputs},
        ],
        "nbformat": 4,
    }


_MEMBERS = {"a.log": TEXT, "b/c.log": TEXT[:700], "d.bin": bytes(range(256)) * 4}
OF_EVERY_KIND = [
    *(pack(TEXT) for pack in COMPRESSIONS.values()),
    zipped(**_MEMBERS),
    tarred(_MEMBERS),
    gzip.compress(tarred(_MEMBERS), mtime=0),
    gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0),
    json.dumps(notebook([TEXT.decode()])).encode(),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_damage_is_more_than_an_error_in_words(data: st.DataObject) -> None:
    """Bytes overwritten, taken out or cut off, anywhere in any kind of file."""
    raw = bytearray(data.draw(st.sampled_from(OF_EVERY_KIND)))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        by = data.draw(st.binary(max_size=12))
        raw[at : at + data.draw(st.integers(0, 12))] = by
        raw = raw or bytearray(b"x")
    raw = raw[: data.draw(st.integers(1, len(raw)))]
    try:
        found = of_bytes(bytes(raw))
    except UnreadableInput as error:
        assert error.message
        return
    for text in read_all(found).values():
        assert len(text) < 1 << 20


@settings(max_examples=150, deadline=None)
@given(raw=st.binary(max_size=3000), magic=st.sampled_from(sorted(file_heads.MAGIC.values())))
def test_any_bytes_behind_a_magic_number(raw: bytes, magic: bytes) -> None:
    for whole in (magic + raw, b"PK\x03\x04" + raw, raw[:257].ljust(257, b"0") + b"ustar" + raw):
        try:
            read_all(of_bytes(whole))
        except UnreadableInput as error:
            assert error.message


ERROR = {
    "ename": "OutOfMemoryError",
    "evalue": "CUDA out of memory.",
    "traceback": [
        "\x1b[0;31m-----\x1b[0m",
        "\x1b[0;31mOutOfMemoryError\x1b[0m   Traceback (most recent call last)",
        "Cell \x1b[0;32mIn[3], line 5\x1b[0m\n      4 x\n\x1b[0;32m----> 5\x1b[0m train()\n",
        "\x1b[0;31mOutOfMemoryError\x1b[0m: CUDA out of memory.",
    ],
}


def test_a_notebook_gives_what_its_cells_printed(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook(["step 1\nstep 2"], ERROR)))
    (text,) = read_all(find_inputs([path])).values()
    lines = text.decode().splitlines()
    assert lines[:2] == ["step 1", "step 2"]
    assert lines[-1] == "OutOfMemoryError: CUDA out of memory."
    assert b"\x1b" not in text and b"KeyError" not in text


def test_an_error_without_its_traceback_is_still_said() -> None:
    bare = {"ename": "KeyError", "evalue": "'a'", "traceback": []}
    (text,) = read_all(of_bytes(json.dumps(notebook([], bare)).encode())).values()
    assert text == b"KeyError: 'a'\n"


def test_a_notebook_of_the_old_format() -> None:
    cells = notebook(["step 1"])["cells"]
    cells[1]["outputs"].append({**ERROR, "output_type": "pyerr"})
    raw = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}).encode()
    (text,) = read_all(of_bytes(raw)).values()
    assert text.startswith(b"step 1\n") and text.endswith(b": CUDA out of memory.\n")


def test_a_notebook_without_outputs_says_so() -> None:
    with pytest.raises(UnreadableInput, match="notebook without outputs"):
        of_bytes(json.dumps(notebook([])).encode())


def test_a_folder_gives_its_logs_and_names_the_rest(tmp_path: Path) -> None:
    outside = tmp_path / "outside.log"
    outside.write_bytes(TEXT)
    folder = tmp_path / "job"
    (folder / "attempt_0" / "1").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "packed.log").write_bytes(TEXT)
    (folder / "attempt_0" / "1" / "stderr.log").write_bytes(TEXT)
    (folder / "train.log.gz").write_bytes(gzip.compress(TEXT))
    (folder / "slurm-1.out").write_bytes(TEXT)
    (folder / "latest").symlink_to("slurm-1.out")
    (folder / "elsewhere").symlink_to(tmp_path)
    (folder / "round").symlink_to("round")
    os.mkfifo(folder / "pipe")
    for name, content in (
        ("epoch1.pt", zipped(**{"a/data.pkl": b""})),
        ("config.yaml", b"a: 1\n"),
        ("weights", os.urandom(3000)),
        ("empty.out", b""),
    ):
        (folder / name).write_bytes(content)
    found = find_inputs([folder])
    assert sorted(read_all(found)) == ["attempt_0/1/stderr.log", "slurm-1.out", "train.log.gz"]
    assert dict(found.skipped) == {
        "config.yaml": "source, settings or tables",
        "empty.out": "empty",
        "epoch1.pt": "a checkpoint or other data",
        "pipe": "no file",
        "round": "no file",
        "weights": "not text",
    }


def test_a_folder_without_logs_names_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"x")
    with pytest.raises(UnreadableInput, match=r"no log in it.*model.pt \(a checkpoint"):
        find_inputs([tmp_path])


def test_a_folder_of_very_many_files_is_read_up_to_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_FILES", 3)
    for at in range(5):
        (tmp_path / f"{at}.log").write_bytes(TEXT)
    found = find_inputs([tmp_path])
    assert len(found.logs) == 3 and "more than 3 files" in found.incomplete


def test_one_empty_file_of_several_costs_only_itself(tmp_path: Path) -> None:
    for name, text in (("0.log", TEXT), ("1.log", b"")):
        (tmp_path / name).write_bytes(text)
    found = find_inputs([tmp_path / "0.log", tmp_path / "1.log"])
    assert list(read_all(found)) == ["0.log"] and found.skipped == [("1.log", "empty")]
