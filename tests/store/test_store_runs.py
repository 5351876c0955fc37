"""Finding, listing and removing runs; the index is a cache and nothing more."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rerail.errors import StoreUnavailable, UnknownRun, UnreadableInput, UsageError
from rerail.records import Outcome
from rerail.store import RunFolder, RunWriter, Store, find_home
from rerail.store.sizes import sizes_of

OK = Outcome("ok", "ended well", exit_code=0)
NewRun = Callable[..., RunWriter]


def ended(new_run: NewRun, command: tuple[str, ...] = ("x",), output: bytes = b"") -> str:
    writer = new_run(command)
    writer.output(output, "stdout", 0.0)
    writer.update_info(recorder_pid=2**22 + 1)  # nobody has this pid: its recorder has ended
    writer.finish(OK, 1.0)
    return writer.id


def rename(store: Store, old: str, new: str) -> str:
    (store.runs / old).rename(store.runs / new)
    path = store.runs / new / "run.json"
    path.write_text(path.read_text().replace(old, new))
    return new


def test_a_store_that_does_not_exist_is_empty(store: Store) -> None:
    assert store.list() == []
    assert not store.home.exists()
    with pytest.raises(UnknownRun, match="nothing is recorded in") as caught:
        store.resolve("last")
    assert "rerail run -- CMD" in caught.value.help_text


def test_runs_are_listed_newest_first(store: Store, new_run: NewRun) -> None:
    ids = [ended(new_run) for _ in range(3)]
    live = new_run()
    assert [info.id for info in store.list()] == [live.id, *reversed(ids)]
    assert [info.state for info in store.list()] == ["running", "ended", "ended", "ended"]
    assert store.resolve("last").id == live.id


def test_names_that_answer(store: Store, new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rename(store, ended(new_run), "20260101-000000-aaaa")
    second = rename(store, ended(new_run), "20260102-000000-bbbb")
    assert store.resolve(first).id == first
    assert store.resolve("20260102").id == second
    assert store.resolve("aaaa").id == first
    assert store.resolve("last").id == second
    assert store.resolve(str(store.runs / first)).id == first
    monkeypatch.chdir(store.runs)
    assert store.resolve(f"./{first}").path == store.runs / first
    assert Store(store.home / "other").resolve(str(store.runs / first)).id == first


def test_a_label_answers_with_the_newest_run_of_that_name(store: Store) -> None:
    for _ in range(2):
        newest = store.create_run(["x"], "/", {"label": "baseline"}, False)
        newest.finish(OK, 1.0)
    assert store.resolve("baseline").path in {s.path for s in store.summaries()}
    assert store.resolve("baseline").info().started_unix == newest.info.started_unix


def test_names_that_do_not_answer_say_what_to_type(store: Store, new_run: NewRun) -> None:
    rename(store, ended(new_run), "20260101-000000-aaaa")
    rename(store, ended(new_run), "20260102-000000-bbbb")
    with pytest.raises(UnknownRun, match="2 runs begin with '2026'") as caught:
        store.resolve("2026")
    assert "20260101-000000-aaaa" in caught.value.message
    with pytest.raises(UnknownRun, match="no run '20260103-000000-bbbb'") as caught:
        store.resolve("20260103-000000-bbbb")
    assert "20260102-000000-bbbb" in caught.value.help_text
    with pytest.raises(UnknownRun, match="not a run folder"):
        store.resolve(str(store.home))
    with pytest.raises(UnknownRun):
        store.resolve("")


def test_the_leading_cause_and_size_come_with_the_summary(
    store: Store, whole_run: RunFolder
) -> None:
    for _ in range(2):  # read, then from the index
        (summary,) = store.summaries()
        assert summary.leading_cause == "native-segfault"
        assert summary.leading_probability == 0.9
        assert summary.size_bytes > 0
        assert summary.info == whole_run.info()
    diagnosis = whole_run.path / "diagnosis.json"
    diagnosis.write_text(diagnosis.read_text().replace("native-segfault", "host-oom"))
    assert store.summaries()[0].leading_cause == "host-oom"


def test_an_unreadable_run_does_not_hide_the_others(store: Store, new_run: NewRun) -> None:
    broken, good = ended(new_run), ended(new_run)
    (store.runs / broken / "run.json").write_text('{"sch')
    assert [info.id for info in store.list()] == [good]
    with pytest.raises(UnreadableInput):
        store.resolve(broken).info()


def test_history_is_earlier_runs_of_the_same_command(store: Store, new_run: NewRun) -> None:
    ids = [ended(new_run, ("python", "a.py")) for _ in range(3)]
    ended(new_run, ("python", "b.py"))
    info = store.resolve(ids[2]).info()
    assert {folder.id for folder in store.history(info)} == set(ids[:2])
    assert len(store.history(info, limit=1)) == 1


@pytest.mark.parametrize(
    ("settings", "signal", "counts"),
    [
        ({"investigation": "k", "changes": []}, "SIGSEGV", True),
        ({"investigation": "k", "changes": []}, "SIGTERM", False),
        ({"investigation": "k", "changes": ["--accum 4"]}, "SIGSEGV", False),
        ({"changes": []}, "SIGTERM", True),
    ],
)
def test_trials_are_history_only_as_what_they_show_of_the_command(
    store: Store, new_run: NewRun, settings: dict[str, Any], signal: str, counts: bool
) -> None:
    trial = new_run(("python", "a.py"))
    trial.update_info(settings=settings)
    trial.finish(Outcome("signal", "died", signal), 1.0)
    now = store.resolve(ended(new_run, ("python", "a.py"))).info()

    assert [folder.id for folder in store.history(now)] == [trial.id] * counts


@pytest.mark.parametrize("junk", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_broken_index_is_rebuilt(store: Store, new_run: NewRun, junk: bytes) -> None:
    ids = [ended(new_run) for _ in range(3)]
    store.list()
    (store.home / "index.sqlite").write_bytes(junk)
    for _ in range(2):
        assert [info.id for info in store.list()] == ids[::-1]
    with sqlite3.connect(store.home / "index.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (3,)


def test_an_index_that_lies_is_not_believed(store: Store, new_run: NewRun) -> None:
    kept, gone = ended(new_run), ended(new_run)
    store.list()
    with sqlite3.connect(store.home / "index.sqlite") as connection:
        connection.execute("UPDATE runs SET text = '[1]'")
    shutil.rmtree(store.runs / gone)
    assert [info.id for info in store.list()] == [kept]


def test_an_index_of_another_version_is_replaced(store: Store, new_run: NewRun) -> None:
    run_id = ended(new_run)
    with sqlite3.connect(store.home / "index.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("CREATE TABLE runs (something TEXT)")
    assert [info.id for info in store.list()] == [run_id]


def test_a_locked_index_is_done_without(
    store: Store, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.store.index.BUSY_SECONDS", 0.01)
    run_id = ended(new_run)
    store.list()
    with sqlite3.connect(store.home / "index.sqlite", isolation_level=None) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        other = ended(new_run)
        assert {info.id for info in store.list()} == {run_id, other}


def test_an_index_that_is_a_folder_is_done_without(store: Store, new_run: NewRun) -> None:
    run_id = ended(new_run)
    (store.home / "index.sqlite").mkdir()
    assert [info.id for info in store.list()] == [run_id]


def test_the_index_is_rebuilt_on_request(store: Store, new_run: NewRun) -> None:
    ended(new_run)
    assert store.rebuild_index() == 1
    assert (store.home / "index.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_read_only_store_can_be_listed(store: Store, new_run: NewRun, tmp_path: Path) -> None:
    run_id = ended(new_run)
    if os.getuid() == 0:
        mounted = subprocess.run(
            ["mount", "--bind", "-o", "ro", str(store.home), str(store.home)],
            capture_output=True, check=False,
        )  # fmt: skip
        if mounted.returncode != 0:
            pytest.skip("root writes everywhere, and this machine allows no bind mount")
    else:
        _set_writable(store.home, False)
    try:
        assert [info.id for info in store.list()] == [run_id]
        assert store.resolve("last").info().state == "ended"
        with pytest.raises(StoreUnavailable, match="cannot remove"):
            store.remove(run_id)
    finally:
        if os.getuid() == 0:
            subprocess.run(["umount", "-l", str(store.home)], check=False)
        else:
            _set_writable(store.home, True)


def _set_writable(folder: Path, writable: bool) -> None:
    """The folder and everything in it; a run can be removed while its own folder is writable."""
    for path in [folder, *folder.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | stat.S_IWUSR if writable else mode & ~stat.S_IWUSR)


def test_many_writers_and_readers_at_once(store: Store) -> None:
    code = (
        "import sys\n"
        "from rerail.records import Outcome\n"
        "from rerail.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "for i in range(10):\n"
        "    w = store.create_run(['x'], '/', {}, False)\n"
        "    store.list()\n"
        "    w.finish(Outcome('ok', 'well'), 1.0)\n"
        "    assert w.missing == [], w.missing\n"
    )

    def work(_: int) -> int:
        command = [sys.executable, "-c", code, str(store.home)]
        return subprocess.run(command, check=False, timeout=240).returncode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 0, 0, 0]
    assert len(store.list()) == 40
    assert all(info.state == "ended" for info in store.list())


def test_removing_a_run(store: Store, new_run: NewRun) -> None:
    kept, gone = ended(new_run), ended(new_run)
    store.list()
    store.remove(gone)
    assert [info.id for info in store.list()] == [kept]
    assert [path.name for path in store.runs.iterdir()] == [kept]


def test_a_live_run_is_not_removed(store: Store, new_run: NewRun) -> None:
    writer = new_run()
    with pytest.raises(UsageError, match="still running"):
        store.remove(writer.id)
    assert store.clean(0) == []
    writer.close()
    writer.update_info(recorder_pid=2**22 + 1)  # nobody has this pid
    assert store.list()[0].state == "lost"
    store.remove(writer.id)
    assert store.list() == []


def test_a_lost_run_whose_command_goes_on_is_not_removed(store: Store, new_run: NewRun) -> None:
    writer = new_run()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        start = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        writer.update_info(root_pid=child.pid, recorder_pid=2**22 + 1)
        writer.event("process-started", pid=child.pid, start=start, ppid=1, role="main",
                     name="cat", command=["cat"], rank=None)  # fmt: skip
        writer.close()
        writer.write_json("diagnosis.json", {})
        later = new_run()  # the failure that ended last is another run, and so is `last`
        later.update_info(recorder_pid=2**22 + 1)
        later.finish(Outcome("signal", "signal"), 9000.0)
        assert store.clean(0) == []
    finally:
        child.communicate(timeout=180)
    assert store.clean(0) == [writer.id]


def test_cleaning_takes_the_oldest_first_until_it_fits(store: Store, new_run: NewRun) -> None:
    ids = []
    for day in range(1, 5):
        made = ended(new_run, output=b"x" * 1_000_000)
        ids.append(rename(store, made, f"2026010{day}-000000-aaaa"))
    live = new_run()
    assert store.clean(10_000_000) == []
    assert store.clean(3_000_000) == ids[:2]
    assert {info.id for info in store.list()} == {*ids[2:], live.id}


def test_sizes_are_remembered_and_forgotten_with_their_runs(store: Store, new_run: NewRun) -> None:
    ids = [ended(new_run, output=b"x" * 100_000) for _ in range(3)]
    live = new_run()
    assert set(sizes_of(store.home, store.ids())) == {*ids, live.id}
    ledger = store.home / "sizes.jsonl"
    assert {json.loads(line)["id"] for line in ledger.read_text().splitlines()} == set(ids)
    (store.runs / ids[0] / "output.log").unlink()
    assert sizes_of(store.home, ids)[ids[0]] > 100_000  # from the ledger
    assert sizes_of(store.home, ids, seconds=0.0).keys() == set(ids)
    with ledger.open("a") as file:
        file.write('{"id": "gone", "bytes": 1}\n' * 100 + "torn")
    sizes_of(store.home, ids)
    assert {json.loads(line)["id"] for line in ledger.read_text().splitlines()} == set(ids)
    ledger.write_bytes(b"\xff\0junk\n")
    assert sizes_of(store.home, ids)[ids[0]] < 100_000


def test_a_store_too_large_to_look_at_at_once_is_cleaned_bit_by_bit(
    store: Store, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 9):
        made = ended(new_run, output=b"x" * 100_000)
        rename(store, made, f"2026010{day}-000000-aaaa")
    for _ in range(50):
        store.clean(250_000, seconds=0.001)
    assert len(store.list()) <= 2


def test_a_new_run_makes_room(
    store: Store, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.store.store.CLEAN_SECONDS", 60.0)
    old = rename(store, ended(new_run, output=b"x" * 1_000_000), "20260101-000000-aaaa")
    monkeypatch.setenv("RERAIL_STORE_LIMIT", "500k")
    last = ended(new_run)
    new = new_run()
    assert {info.id for info in store.list()} == {last, new.id}
    assert not (store.runs / old).exists()


@pytest.mark.parametrize("limit", ["0", "lots", "-5"])
def test_no_limit_and_no_sensible_limit_remove_nothing(
    store: Store, new_run: NewRun, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    ended(new_run)
    monkeypatch.setenv("RERAIL_STORE_LIMIT", limit)
    ended(new_run)
    assert len(store.list()) == 2


def test_an_unreadable_run_can_be_removed(store: Store, new_run: NewRun) -> None:
    run_id = ended(new_run)
    (store.runs / run_id / "run.json").write_text("{")
    store.remove(run_id)
    assert store.ids() == []


def test_a_working_folder_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StoreUnavailable, match="does not exist any more"):
        find_home()
    monkeypatch.chdir(tmp_path)


def test_a_folder_that_is_just_being_made_is_left_alone(store: Store) -> None:
    (store.runs / "20260101-000000-aaaa").mkdir(parents=True)
    assert store.clean(0) == []
    assert store.list() == []


def test_where_the_home_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    if any((folder / ".rerail").is_dir() for folder in tmp_path.parents):
        pytest.skip("somebody's store lies above the temporary folder")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert find_home() == deep / ".rerail"
    assert find_home(for_reading=True) == deep / ".rerail"
    (tmp_path / "a" / ".rerail").mkdir()
    assert find_home() == deep / ".rerail"
    assert find_home(for_reading=True) == tmp_path / "a" / ".rerail"
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path / "said"))
    assert find_home(for_reading=True) == tmp_path / "said"
    assert find_home("here") == deep / "here"
