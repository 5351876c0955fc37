"""A run folder reads back as records, whatever happened to its files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from whole_run import write_whole_run

from rerail.errors import RerailError, UnreadableInput
from rerail.records import AfterDeath, Outcome
from rerail.store import RunFolder, RunWriter, Store


def read_everything(folder: RunFolder) -> list[Any]:
    """Every reader of a folder once."""
    return [
        folder.info(),
        list(folder.events()),
        folder.processes(),
        list(folder.vitals()),
        folder.recent_vitals(),
        list(folder.output()),
        folder.output().tail(3),
        folder.output().stretches(),
        list(folder.output().lines_of_stream("stderr")),
        folder.crashes(),
        folder.libraries(),
        folder.stalls(),
        folder.after(),
        folder.surroundings(),
        folder.diagnosis(),
        folder.missing(),
    ]


def read_what_depends_on(name: str, folder: RunFolder) -> None:
    """Only that, because every byte of every file takes a turn."""
    if name in ("run.json", "events.jsonl", "output.log", "output.index.jsonl"):
        read_everything(folder)
    list(folder.vitals())
    folder.recent_vitals()
    folder.crashes()
    folder.libraries()
    folder.stalls()
    folder.after()
    folder.surroundings()
    folder.diagnosis()


def test_what_was_written_reads_back(whole_run: RunFolder) -> None:
    info = whole_run.info()
    assert info.state == "ended"
    assert info.elapsed_seconds == 3.25
    assert info.outcome == Outcome("signal", "main died of SIGSEGV", "SIGSEGV", None, "main")
    main, worker = whole_run.processes()
    assert (main.key, main.role, main.signal, main.dumped_core) == (
        "100-5",
        "main",
        "SIGSEGV",
        True,
    )
    assert main.ending_source == "wait"
    assert (worker.parent_pid, worker.exit_code) == (100, 0)
    (row,) = whole_run.vitals()
    assert row.processes["100-5"].rss_bytes == 1 << 20
    assert row.machine == {"total_bytes": 1e9}
    assert whole_run.recent_vitals() == [row]
    assert [line.text for line in whole_run.output()][-1] == b"epoch 2"
    (crash,) = whole_run.crashes()
    assert crash.threads[0].native[0].function == "boom"
    assert crash.stack_bounds == (1, 2)
    assert whole_run.libraries()["100-5"][0].flavour == "libgomp"
    assert whole_run.stalls()[0].summary == "waits"
    assert whole_run.after().memory_limits[0].limit_bytes == 1 << 30
    assert whole_run.surroundings()["git"] == {"commit": "abc"}
    assert whole_run.diagnosis()["causes"][0]["id"] == "native-segfault"


def test_every_json_artefact_names_its_schema(whole_run: RunFolder) -> None:
    for path in whole_run.path.rglob("*.json"):
        assert json.loads(path.read_text())["schema"] == 1, path.name
    assert json.loads((whole_run.path / "events.jsonl").read_text().splitlines()[0])["schema"] == 1


def test_files_and_folders_are_private(whole_run: RunFolder) -> None:
    for path in [whole_run.path, *whole_run.path.rglob("*")]:
        if "vitals" not in path.name:  # written by the test itself
            wanted = 0o700 if path.is_dir() else 0o600
            assert path.stat().st_mode & 0o777 == wanted, path.name
    assert not (whole_run.path / "reserve").exists()


def test_missing_artefacts_are_empty_values(new_run: Callable[..., RunWriter]) -> None:
    folder = RunFolder(new_run().path)
    assert folder.processes() == []
    assert list(folder.vitals()) == folder.recent_vitals() == []
    assert list(folder.output()) == []
    assert folder.boxes() == []
    assert folder.crashes() == []
    assert folder.libraries() == {}
    assert folder.stalls() == []
    assert folder.after() == AfterDeath()
    assert folder.surroundings() == {}
    assert folder.diagnosis() == {}


def test_no_run_folder_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"not a run folder: it has no run\.json"):
        RunFolder(tmp_path).info()


@pytest.mark.thorough
def test_any_file_cut_anywhere_costs_at_most_that_file(
    whole_run: RunFolder, tmp_path: Path
) -> None:
    """Never anything but a value or a RerailError, and streams lose their last record only."""
    copy = tmp_path / "copy"
    shutil.copytree(whole_run.path, copy)
    folder = RunFolder(copy)
    for path in sorted(p for p in copy.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        for size in reversed(range(len(whole))):
            os.truncate(path, size)
            try:
                read_what_depends_on(path.name, folder)
            except RerailError as error:
                assert path.suffix == ".json", f"{path.name} cut at {size}"
                assert path.name in error.message
        path.write_bytes(whole)
    assert read_everything(folder)[1:] == read_everything(whole_run)[1:]


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 300, b"\xff\xfe{", b"[1,2]", b"{}", b"null\n", b'"x"']
)
def test_any_file_replaced_by_junk_gives_no_traceback(
    whole_run: RunFolder, tmp_path: Path, junk: bytes
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole_run.path, copy)
    for path in sorted(p for p in copy.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        path.write_bytes(junk)
        try:
            read_everything(RunFolder(copy))
        except RerailError:
            pass
        path.write_bytes(whole)


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_tail_costs_the_last_record_only(whole_run: RunFolder, cut: int) -> None:
    path = whole_run.path / "events.jsonl"
    before = list(whole_run.events())
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(whole_run.events()) == before[:-1]


def test_a_line_torn_in_the_middle_costs_itself(whole_run: RunFolder) -> None:
    path = whole_run.path / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    before = list(whole_run.events())
    path.write_bytes(b"".join([*lines[:2], lines[2][:10] + b"\n", *lines[3:]]))
    assert list(whole_run.events()) == before[:2] + before[3:]


@pytest.mark.parametrize("name", ["run.json", "crashes.json", "after.json", "diagnosis.json"])
def test_a_foreign_schema_is_refused_naming_both_numbers(whole_run: RunFolder, name: str) -> None:
    path = whole_run.path / name
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 7', 1))
    with pytest.raises(UnreadableInput) as caught:
        read_everything(whole_run)
    assert name in caught.value.message
    assert "schema 7" in caught.value.message
    assert "schema 1" in caught.value.message


@pytest.mark.parametrize("name", ["events.jsonl", "vitals.jsonl"])
def test_a_foreign_schema_of_a_stream_is_refused_too(whole_run: RunFolder, name: str) -> None:
    path = whole_run.path / name
    text = path.read_text().replace('"schema":1', '"schema":7').replace('"schema": 1', '"schema":7')
    path.write_text(text)
    with pytest.raises(UnreadableInput, match="schema 7"):
        read_everything(whole_run)


def test_a_folder_copied_elsewhere_reads_the_same(whole_run: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(whole_run.path, copy)
    assert read_everything(RunFolder(copy)) == read_everything(whole_run)


def test_a_list_without_schema_is_read_as_libraries(whole_run: RunFolder) -> None:
    (whole_run.path / "maps" / "101-6.json").write_text('[{"path": "/lib/libomp.so"}]')
    assert whole_run.libraries()["101-6"][0].path == "/lib/libomp.so"


def test_an_ending_without_a_beginning_is_still_a_process(
    new_run: Callable[..., RunWriter],
) -> None:
    writer = new_run()
    writer.event("process-ended", pid=7, start=9, exit_code=None, signal="SIGKILL", core=False,
                 source=None)  # fmt: skip
    (process,) = RunFolder(writer.path).processes()
    assert (process.key, process.role, process.signal) == ("7-9", "child", "SIGKILL")


def test_an_ending_that_knows_only_the_pid_is_of_the_process_that_lives(
    new_run: Callable[..., RunWriter],
) -> None:
    writer = new_run()
    for start in (1, 2):
        writer.event("process-started", pid=7, start=start, ppid=1, role="main", name="x",
                     command=[], rank=None)  # fmt: skip
        writer.event("process-ended", pid=7, start=start if start == 1 else 0, exit_code=start,
                     signal=None, core=False, source="zombie")  # fmt: skip
    assert [(p.key, p.exit_code) for p in RunFolder(writer.path).processes()] == [
        ("7-1", 1),
        ("7-2", 2),
    ]


def test_exec_changes_name_and_role(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    writer.event("process-started", pid=7, start=9, ppid=1, role="shell", name="sh",
                 command=["sh"], rank=None)  # fmt: skip
    writer.event("process-changed", pid=7, start=9, name="python", command=["python"], role="main")
    (process,) = RunFolder(writer.path).processes()
    assert (process.name, process.command, process.role) == ("python", ["python"], "main")


def test_a_reused_pid_is_two_processes(new_run: Callable[..., RunWriter]) -> None:
    writer = new_run()
    for start in (1, 2):
        writer.event("process-started", pid=7, start=start, ppid=1, role="child", name="x",
                     command=[], rank=None)  # fmt: skip
    assert [p.key for p in RunFolder(writer.path).processes()] == ["7-1", "7-2"]


def test_truncation_fuzz_covers_a_run_with_every_artefact(store: Store) -> None:
    folder = write_whole_run(store.create_run(["x"], "/", {}, False))
    names = {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*.json*")}
    assert {"run.json", "crashes.json", "after.json", "maps/100-5.json", "stalls.jsonl"} <= names
