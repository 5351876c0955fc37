"""What is no regular file, or far too large, costs its own part of one run: no wait, no memory."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rerail.cli import main
from rerail.errors import RerailError, UnreadableInput
from rerail.store import RunFolder, Store, bounds, layout
from rerail.store.regular_files import (
    FileTooLarge,
    NotARegularFile,
    open_append,
    open_beginning,
    open_regular,
    read_regular,
)

RECORDING = Path(__file__).parent.parent / "recordings" / "schema-1" / "segfault"
RUN, OTHER = "20260101-000000-aaaa", "20260101-000001-bbbb"
FILES = sorted(str(path.relative_to(RECORDING)) for path in RECORDING.rglob("*") if path.is_file())
COMMANDS = (["runs"], ["show", RUN], ["explain", RUN], ["report", RUN, "-o", "r.html"],
            ["pack", RUN, "-o", "p.zip"])  # fmt: skip


def make_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


SPECIAL: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "folder": Path.mkdir,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": lambda path: path.symlink_to("nothing"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    for name in (RUN, OTHER):
        shutil.copytree(RECORDING, tmp_path / "home" / "runs" / name)
    return tmp_path / "home"


def run_bounded(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own with little memory, which a hang or a large read would end."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
        "from rerail.cli import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments, "--home", str(home)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


@pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL.keys())
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    make(path)
    for use in (open_regular, open_append, lambda p: read_regular(p, 10)):
        with pytest.raises(NotARegularFile) as refused:
            use(path)
        assert "where a file belongs" in str(refused.value.strerror)
    assert Path("/etc/passwd").read_bytes()  # and nothing was added to what a link points to


def test_a_bound_is_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_regular(path, 10) == b"0123456789"
    with pytest.raises(FileTooLarge, match="larger than 9 bytes"):
        read_regular(path, 9)
    with open_beginning(path, 4) as file:
        assert (file.read(2), file.read(), file.read()) == (b"01", b"23", b"")
        file.seek(9)
        assert file.read() == b""


def test_a_file_that_the_user_named_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"text")
    (tmp_path / "link").symlink_to("real")
    assert read_regular(tmp_path / "link", 10, follows_links=True) == b"text"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotARegularFile):
        read_regular(tmp_path / "pipe", 10, follows_links=True)


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder", "link to a file"])
@pytest.mark.parametrize("name", FILES)
def test_every_file_of_a_run_may_be_something_else(
    home: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "runs" / RUN / name
    path.unlink()
    SPECIAL[kind](path)
    is_the_run = name in ("run.json", "events.jsonl")
    for command in COMMANDS:
        status = main([*command, "--home", str(home)])
        printed = capsys.readouterr()
        assert "defect" not in printed.err, printed.err
        if is_the_run and command[0] != "runs":
            assert status == 2
            assert name in printed.err
        else:
            assert status in (0, 1), printed.err
    assert main(["runs", "--home", str(home), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    listed = [run["id"] for run in document["runs"]]
    assert OTHER in listed
    assert (RUN in listed) == (name != "run.json")
    assert [row["id"] for row in document["unreadable"]] == ([RUN] if name == "run.json" else [])


@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite-wal", "sizes.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "link to a file", "folder"])
def test_the_caches_of_a_store_may_be_something_else(home: Path, name: str, kind: str) -> None:
    SPECIAL[kind](home / name)
    listed = run_bounded(home, "runs", "--json")
    assert listed.returncode == 0
    assert len(json.loads(listed.stdout)["runs"]) == 2
    if name != "sizes.jsonl":
        assert "the list was made without index.sqlite: it is" in listed.stderr
    recorded = subprocess.run(
        [sys.executable, "-m", "rerail", "run", "--home", str(home), "--", "true"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert recorded.returncode == 0, recorded.stderr
    assert len(Store(home).ids()) == 3


@pytest.mark.thorough
def test_an_index_that_answers_for_ever_is_done_without(home: Path) -> None:
    with sqlite3.connect(home / "index.sqlite") as made:
        made.execute("PRAGMA user_version = 1")
        made.execute(
            "CREATE VIEW runs AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"
            " SELECT 'x' || i AS id, '' AS stamp, '' AS text, 'no' AS bytes FROM n WHERE i < 0"
        )
    made.close()
    assert [summary.info.id for summary in Store(home).summaries()] == [OTHER, RUN]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["output.log", "vitals.jsonl", "events.jsonl", "run.json"])
def test_a_sparse_terabyte_is_not_read(home: Path, name: str) -> None:
    os.truncate(home / "runs" / RUN / name, 1 << 40)
    for command in COMMANDS:
        done = run_bounded(home, *command)
        assert done.returncode in (0, 1, 2)
        assert "defect" not in done.stderr
    if name == "vitals.jsonl":
        assert any(what == name for what, _ in RunFolder(home / "runs" / RUN).left_out())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "line", [b"[" * 300_000, b'{"t":1,"kind":"' + b"x" * (30 << 20), b"9" * 5000]
)
@pytest.mark.parametrize("name", ["events.jsonl", "run.json", "stalls.jsonl", "after.json"])
def test_what_no_parser_should_be_given_is_refused(home: Path, name: str, line: bytes) -> None:
    with (home / "runs" / RUN / name).open("ab") as file:
        file.write(line + b"\n")
    for command in (["runs"], ["explain", RUN]):
        done = run_bounded(home, *command)
        assert done.returncode in (0, 1, 2)
        assert "defect" not in done.stderr


def test_of_a_long_log_stretches_of_the_whole_are_read(home: Path) -> None:
    path = home / "runs" / RUN / layout.EVENTS
    line = '{"t": %d, "kind": "note", "text": "%s"}\n'
    with path.open("a") as file:
        for number in range(40_000):
            file.write(line % (number, "x" * 1000))
    assert path.stat().st_size > 2 * bounds.log_bounds(layout.EVENTS)[0]
    times = [e.t_seconds for e in RunFolder(path.parent).events() if e.kind == "note"]
    assert times == sorted(times)
    assert times[-1] == 39_999
    assert 7_000 < len(times) < 9_000
    longest_gap = max(later - earlier for earlier, later in itertools.pairwise(times))
    assert longest_gap < 2_000


def test_values_that_nobody_could_have_observed(home: Path) -> None:
    folder = RunFolder(home / "runs" / RUN)
    with (folder.path / "events.jsonl").open("a") as file:
        for t in ("1e999", "NaN", '"1"', "9" * 400):
            file.write(f'{{"t": {t}, "kind": "note"}}\n')
        for pid in ("-1", '"7"', "1e3", str(2**40)):
            file.write(f'{{"t": 1, "kind": "process-started", "pid": {pid}, "rank": -3}}\n')
    assert all(p.pid > 0 and (p.rank is None or p.rank >= 0) for p in folder.processes())
    text = (folder.path / "run.json").read_text()
    for bad in ("1e999", "1e300", '"Infinity"', '"now"', "null"):
        document = json.loads(text)
        document["started_unix"] = "HERE"
        (folder.path / "run.json").write_text(json.dumps(document).replace('"HERE"', bad))
        with pytest.raises(UnreadableInput, match=r"run\.json"):
            folder.info()


def test_nothing_is_added_to_what_a_link_points_to(home: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (home / "sizes.jsonl").symlink_to(precious)
    (home / "index.sqlite").symlink_to(precious)
    writer = Store(home).create_run(["true"], "/", {}, False)
    for name in ("events.jsonl", "output.log", "stalls.jsonl"):
        (writer.path / name).unlink(missing_ok=True)
        (writer.path / name).symlink_to(precious)
    (writer.path / f".run.json.{os.getpid()}.new").symlink_to(precious)
    writer.output(b"text\n", "stdout", 0.1)
    writer.append("stalls.jsonl", {"a": 1})
    writer.update_info(root_pid=1)
    writer.close()
    assert precious.read_text() == "mine"
    assert {"output", "stalls.jsonl"} <= {what for what, _ in writer.missing}
    assert Store(home).list()


def test_a_linked_run_is_unlinked_and_frees_nothing(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (home / "runs" / RUN).rename(elsewhere)
    (home / "runs" / RUN).symlink_to(elsewhere)
    assert main(["rm", RUN, "--yes", "--home", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["freed_bytes"] == 0
    assert (elsewhere / "run.json").exists()
    assert [path.name for path in (home / "runs").iterdir()] == [OTHER]


def test_a_run_that_claims_another_name_answers_to_its_folder_s(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`rm` must not follow what a run.json says its id is."""
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(RECORDING, elsewhere)
    path = home / "runs" / RUN / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "id": str(elsewhere)}))
    assert main(["rm", "--older-than", "0s", "--yes", "--home", str(home)]) == 0
    assert (elsewhere / "run.json").exists()
    assert Store(home).ids() == []


def test_several_remove_the_same_runs_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for number in range(20):
        shutil.copytree(RECORDING, home / "runs" / f"20260101-0000{number:02d}-aaaa")
    ids = Store(home).ids()
    command = [sys.executable, "-m", "rerail", "rm", "--older-than", "1s", "--yes", "--json"]

    def remove(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "--home", str(home)], capture_output=True, text=True, timeout=240
        )

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(remove, range(4)))
    assert [answer.returncode for answer in answers] == [0] * 4, [a.stderr for a in answers]
    removed = [name for answer in answers for name in json.loads(answer.stdout)["removed"]]
    assert sorted(removed) == ids  # each by exactly one of them
    assert list((home / "runs").iterdir()) == []


def test_a_cache_that_lies_about_sizes_costs_no_run(home: Path) -> None:
    rows = [json.dumps({"id": name, "bytes": 10**15}) for name in (RUN, OTHER)]
    (home / "sizes.jsonl").write_text("\n".join(rows) + "\n")
    assert Store(home).clean(1 << 30) == []
    assert Store(home).ids() == [RUN, OTHER]


def test_a_name_that_no_file_system_takes_is_an_unknown_run(home: Path) -> None:
    for name in ("x" * 5000, "a\0b", "~nobody-of-that-name/run"):
        with pytest.raises(RerailError):
            Store(home).resolve(name)


def test_a_pipe_that_the_user_named_is_read(tmp_path: Path) -> None:
    log = "<(echo 'RuntimeError: CUDA out of memory.')"
    script = f"{shlex.quote(sys.executable)} -m rerail explain --json {log}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=240
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["causes"]
