"""`rerail explain` with what people really type and hand over."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rerail import cli

OOM = (
    'step 41 loss 0.3\nTraceback (most recent call last):\n  File "t.py", line 9, in main\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / "home"))
    return tmp_path


def typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(list(arguments))
    said = capsys.readouterr()
    return status, said.out, said.err


def explained(capsys: pytest.CaptureFixture[str], *names: str) -> dict[str, object]:
    status, out, _ = typed(capsys, "explain", "--json", *names)
    assert status == 1
    document: dict[str, object] = json.loads(out)
    return document


def leading(document: dict[str, object]) -> str:
    causes = document["causes"]
    assert isinstance(causes, list)
    return str(causes[0]["id"])


def test_a_folder_with_checkpoints_beside_the_logs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job").mkdir()
    Path("job/rank1.log").write_text(OOM)
    Path("job/epoch1.pt").write_bytes(os.urandom(5000))
    status, out, err = typed(capsys, "explain", "job")
    assert status == 1 and "gpu-oom" in out
    assert err == "rerail: passed over 1 file: epoch1.pt (a checkpoint or other data)\n"
    document = explained(capsys, "job")
    assert document["skipped"] == [{"name": "epoch1.pt", "why": "a checkpoint or other data"}]


def test_a_project_with_a_folder_called_runs_is_no_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("job/runs/Nov17").mkdir(parents=True)  # TensorBoard's
    Path("job/train.log").write_text(OOM)
    assert leading(explained(capsys, "job")) == "gpu-oom"


def test_packed_logs_keep_their_line_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.log").write_text(OOM)
    Path("train.log.gz").write_bytes(gzip.compress(OOM.encode()))
    with tarfile.open("logs.tar.xz", "w:xz") as archive:
        archive.add("train.log")
    with zipfile.ZipFile("logs.zip", "w") as packed:
        packed.write("train.log")
    plain = explained(capsys, "train.log")
    for name in ("train.log.gz", "logs.tar.xz", "logs.zip"):
        assert explained(capsys, name) == plain


def test_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    error = {
        "output_type": "error",
        "ename": "OutOfMemoryError",
        "evalue": "CUDA out of memory.",
        "traceback": ["\x1b[31mOutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate"],
    }
    cells = [{"cell_type": "code", "source": [], "outputs": [error]}]
    Path("a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    assert leading(explained(capsys, "a.ipynb")) == "gpu-oom"


@pytest.mark.parametrize("pack", [lambda raw: raw, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("arguments", [["explain", "-"], ["-"], ["explain", "/dev/stdin"]])
def test_standard_input(pack: object, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", *arguments, "--json"],
        input=pack(OOM.encode()), capture_output=True, check=False, timeout=180,  # type: ignore[operator]
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    assert json.loads(done.stdout)["causes"][0]["id"] == "gpu-oom"


def test_an_archive_that_is_cut_off_is_answered_with_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noise = os.urandom(300_000).hex().encode()
    packed = gzip.compress(OOM.encode() + noise)
    Path("train.log.gz").write_bytes(packed[:-100_000])
    assert "train.log.gz is cut off after" in str(explained(capsys, "train.log.gz")["incomplete"])


def test_a_mistyped_file_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.log").write_text(OOM)
    for arguments in (["explain", "train.lgo"], ["explain", "train.log", "train.lgo"]):
        status, _, err = typed(capsys, *arguments)
        assert status == 2
        assert "no such file: train.lgo; did you mean train.log?" in err
        assert "rerail explain train.log" in err


def test_a_file_that_is_not_there_is_not_called_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = typed(capsys, "explain", "logs/train.log")
    assert status == 2 and "no such file: logs/train.log" in err and "no run" not in err


def test_what_was_meant_for_a_run_is_answered_as_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = typed(capsys, "explain", "a3f1")
    assert status == 2 and "no such file" not in err and "run" in err


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("https://ci.example/1/log?raw=1", "curl -L 'https://ci.example/1/log?raw=1' |"),
        ("s3://bucket/train.log", "aws s3 cp s3://bucket/train.log - |"),
        ("gs://bucket/train.log", "gcloud storage cat gs://bucket/train.log |"),
        ("file:///tmp/train.log", "rerail explain /tmp/train.log"),
    ],
)
def test_a_url_is_answered_with_what_to_type(
    url: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["explain", url], [url]):
        status, _, err = typed(capsys, *arguments)
        assert status == 2 and command in err
        assert "Traceback" not in err


def test_a_file_alone_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.log").write_text(OOM)
    Path("job").mkdir()
    Path("job/train.log").write_text(OOM)
    for name in ("train.log", "./train.log", "job"):
        assert typed(capsys, name, "--json") == typed(capsys, "explain", name, "--json")
    assert typed(capsys, "train.log")[0] == 1


def test_a_command_goes_before_a_file_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("causes").write_text(OOM)
    assert "openmp-duplicate-runtime" in typed(capsys, "causes")[1]


def test_a_mistyped_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.log").write_text(OOM)
    status, _, err = typed(capsys, "trian.log")
    assert status == 2
    assert "no such file: trian.log; did you mean train.log?" in err
    assert "Type: rerail explain train.log" in err


def test_a_program_alone_is_not_taken_for_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text("raise MemoryError('CUDA out of memory')\n")
    status, out, err = typed(capsys, "train.py", "--lr", "1")
    assert (status, out) == (2, "")
    assert "rerail run -- python train.py --lr 1" in err
