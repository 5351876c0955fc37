"""What `rerail run` says of its record when the store fails under it: the truth, and the place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rerail.store import RunFolder

MakeDisk = Callable[..., Path]


def run(home: Path, code: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "run", *options, "--", "sh", "-c", code],
        env={**os.environ, "RERAIL_HOME": str(home), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "still going" not in done.stderr and "Traceback" not in done.stderr
    assert "exit code 7" in done.stderr
    return done


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[MakeDisk]:
    mounted = []

    def make(options: str) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
        )
        if done.returncode:
            pytest.skip(f"cannot mount a small disk here: {done.stderr.decode().strip()}")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def record_named_in(text: str) -> RunFolder:
    line = next(line for line in text.splitlines() if "the record is in" in line)
    path = Path(line.partition("the record is in ")[2].partition(": ")[0])
    assert path.is_dir(), line
    return RunFolder(path)


def assert_is_elsewhere(done: subprocess.CompletedProcess[str], home: Path, why: str) -> None:
    folder = record_named_in(done.stderr)
    assert f"{home} could not be written ({why}" in done.stderr
    outcome = folder.info().outcome
    assert outcome is not None and outcome.exit_code == 7
    assert "lacks" not in done.stderr


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    done = run(home, "exit 7", TMPDIR=str(tmp_path))
    assert_is_elsewhere(done, home, "not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    done = run(tmp_path / "closed" / "home", "exit 7", TMPDIR=str(tmp_path))
    assert_is_elsewhere(done, tmp_path / "closed" / "home", "permission denied")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("size=4m,nr_inodes=2", "no more files fit"),
        ("size=4m,nr_inodes=12", "no more files fit"),
        ("size=64k", "no space left"),
        ("ro", "read-only file system"),
    ],
)
def test_a_disk_that_takes_nothing(tmp_path: Path, disk: MakeDisk, options: str, why: str) -> None:
    home = disk(options) / "home"
    assert_is_elsewhere(run(home, "exit 7", TMPDIR=str(tmp_path)), home, why)


def test_no_place_at_all(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    other = tmp_path / f"rerail-{os.getuid()}"
    other.write_text("")
    done = run(home, "exit 7", "--json", TMPDIR=str(tmp_path))
    assert "there is no record of this run" in done.stderr
    assert str(home) in done.stderr and str(other) in done.stderr
    document = json.loads(done.stdout)
    assert document["outcome"]["exit_code"] == 7 and document["run"] is None


def test_a_disk_whose_inodes_the_command_uses_up(tmp_path: Path, disk: MakeDisk) -> None:
    folder = disk("size=8m,nr_inodes=60")
    fill = "i=0; while : 2>/dev/null > $0/$i; do i=$((i+1)); done; exit 7".replace(
        "$0", str(folder)
    )
    done = run(folder / "home", f"exec 2>/dev/null; ({fill}); exit 7")
    (path,) = (folder / "home" / "runs").iterdir()
    outcome = RunFolder(path).info().outcome
    assert outcome is not None and outcome.exit_code == 7
    assert "there is no record" not in done.stderr


def test_a_store_that_the_command_removes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    # Until it stays away: the recorder may be making a file in it just then.
    code = f"while ! rm -r {home}; do :; done 2>/dev/null; sleep 0.3; rm -rf {home}; exit 7"
    done = run(home, code)
    assert "there is no record of this run" in done.stderr and "removed" in done.stderr
    assert "the record is in" not in done.stderr


def test_an_ending_that_cannot_be_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code = f"cd {home}/runs/* && sleep 0.3 && rm run.json && mkdir run.json; exit 7"
    done = run(home, code)
    assert f"the record in {home}" in done.stderr and "is incomplete" in done.stderr
    assert "the record lacks run.json: is a directory" in done.stderr
