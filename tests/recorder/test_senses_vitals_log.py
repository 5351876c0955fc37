"""Vitals on disk: what is kept, how much room it takes, and what a full disk does to it."""

from __future__ import annotations

import json
import random
import stat
from collections.abc import Callable, Iterator
from dataclasses import astuple, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.recorder.vitals.log import VitalsLog
from rerail.records import ProcessVitals, VitalsRow
from rerail.store import VitalsFiles

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

MACHINE = {
    "total_bytes": 25276518400,
    "available_bytes": 23910268928,
    "swap_free_bytes": 8589934592,
    "load_1m": 12.31,
    "shm_total_bytes": 12638257152,
    "shm_used_bytes": 123456789,
    "psi_memory_some_avg10": 0.12,
    "psi_memory_full_avg10": 0.03,
    "cgroup_usage_bytes": 21474836480,
    "cgroup_limit_bytes": 25769803776,
    "cgroup_failcnt": 12,
    "cgroup_oom_kills": 0,
    "cgroup_tasks": 811,
    "cgroup_tasks_limit": 4096,
    "disk_free_bytes": 829984235520,
    "disk_total_bytes": 929984235520,
    "cwd_disk_free_bytes": 829984235520,
    "cwd_disk_total_bytes": 929984235520,
    "recorder_cpu_seconds": 12.345,
    "recorder_rss_bytes": 31234567,
    "gpu0_used_bytes": 12345678901,
    "gpu0_total_bytes": 25769803776,
    "gpu0_utilisation": 0.93,
    "gpu0_temperature": 71,
}


def simulate(seconds: float, processes: int, seed: int = 1) -> Iterator[VitalsRow]:
    """A busy tree at 10 Hz: every process changes at every row, some by much.

    Ten seconds are made and then repeated: making an hour would take longer than writing it.
    """
    chance = random.Random(seed)
    keys = [f"{4194304 - index}-{123456789 + index}" for index in range(processes)]
    machine = dict(MACHINE)
    made: list[tuple[ProcessVitals, dict[str, ProcessVitals], dict[str, float]]] = []
    for tick in range(min(int(seconds * 10), 100)):
        vitals = {
            key: ProcessVitals(
                chance.randrange(10**9, 4 * 10**9), 234567890, 12345678, 1234567, 67, 123,
                round(1234 + tick * 1.93, 2), 12345678 + tick, 1234, 98765432109 + tick * 4096,
                1234567890 + tick, 12345678 + tick, 2345678 + tick,
            )
            for key in keys
        }  # fmt: skip
        if tick % 5 == 0:
            machine = dict(machine)
            machine["available_bytes"] -= chance.randrange(-(10**8), 10**8)
            machine["cgroup_usage_bytes"] += chance.randrange(-(10**8), 10**8)
            machine["recorder_cpu_seconds"] = round(tick * 0.004, 3)
            machine["shm_used_bytes"] += chance.randrange(-4096, 4097)
        total = [sum(column) for column in zip(*map(astuple, vitals.values()), strict=True)]
        total[6] = round(total[6], 2)
        made.append((ProcessVitals(*total), vitals, machine))
    for tick in range(int(seconds * 10)):
        tree, vitals, machine = made[tick % len(made)]
        yield VitalsRow(tick / 10, 0.0, tree, processes, vitals, machine)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    return header, rows


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("vitals*"))


@pytest.mark.thorough
def test_an_hour_of_a_busy_tree_of_40_processes_takes_less_than_4_mb(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    for row in simulate(3600, 40):
        log.add(row)
    log.close()
    assert folder_bytes(tmp_path) <= 4_000_000


def test_each_minute_takes_less_than_its_share_with_200_processes(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    size_at = {}
    for row in simulate(300, 200):
        if row.t_seconds in (180.0, 240.0):
            size_at[row.t_seconds] = folder_bytes(tmp_path)
        log.add(row)
    log.close()
    assert size_at[240.0] - size_at[180.0] <= 4_000_000 / 60


def test_small_trees_keep_every_process_in_every_row(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    for row in simulate(30, 4):
        log.add(row)
    log.close()
    _, rows = read(tmp_path / "vitals.recent.jsonl")
    # The budget saved up in rows of small trees carries four busy processes at 10 Hz.
    assert sum(len(row["procs"]) == 4 for row in rows) >= 0.95 * len(rows)


def test_the_last_minute_is_there_at_ten_rows_a_second(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    for row in simulate(201, 3):
        log.add(row)
        times = [
            line["t"]
            for name in ("vitals.recent.old.jsonl", "vitals.recent.jsonl")
            if (tmp_path / name).exists() and row.t_seconds in (59.9, 60.0, 119.9, 120.0, 150.0)
            for line in read(tmp_path / name)[1]
        ]
        if times:
            assert times == sorted(times)
            assert times[0] <= max(row.t_seconds - 60.0, 0.0)
            assert times[-1] == row.t_seconds
            assert max(b - a for a, b in pairwise(times)) < 0.11
    log.close()


def test_format_is_that_of_the_run_folder(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    for row in simulate(25, 2):
        log.add(row)
    log.close()
    names = [field.name for field in fields(ProcessVitals)]
    for path in tmp_path.glob("vitals*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        header, rows = read(path)
        assert header == {"schema": 1, "process_fields": names}
        for row in rows:
            assert set(row) == {"t", "span", "n", "tree", "procs", "machine", "min", "max"}
            assert len(row["tree"]) == len(names)
            assert all(len(values) == len(names) for values in row["procs"].values())
    _, history = read(tmp_path / "vitals.jsonl")
    assert {row["span"] for row in history} == {1, 10}
    assert [row["t"] for row in history if row["span"] == 1] == [
        pytest.approx(second + 0.9) for second in range(25)
    ]


@unhurried
@given(
    st.lists(
        st.lists(st.integers(min_value=1, max_value=10**10), min_size=2, max_size=2),
        min_size=1,
        max_size=130,
    )
)
def test_extremes_of_a_thinned_bucket_are_exact(tmp_path_factory: Any, values: Any) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = VitalsLog(VitalsFiles(folder))
    for tick, (first, second) in enumerate(values):
        a, b = ProcessVitals(rss_anon_bytes=first), ProcessVitals(rss_anon_bytes=second)
        tree = ProcessVitals(rss_anon_bytes=first + second)
        log.add(VitalsRow(tick / 10, 0.0, tree, 2, {"1-1": a, "2-2": b}, {}))
    log.close()
    _, rows = read(folder / "vitals.jsonl")
    for row in rows:
        last = round(row["t"] * 10)
        begin = last // (row["span"] * 10) * row["span"] * 10
        stretch = values[int(begin) : last + 1]
        sums = [sum(pair) for pair in stretch]
        anon = row["tree"][0]
        assert anon == sums[-1]
        assert row["min"].get("tree.rss_anon_bytes", anon) == min(sums)
        assert row["max"].get("tree.rss_bytes", anon) == max(sums)
        for key, column in (("1-1", 0), ("2-2", 1)):
            if key in row["procs"]:
                series = [pair[column] for pair in stretch]
                rss = row["procs"][key][0]
                assert rss == series[-1]
                assert row["min"].get(f"{key}.rss_bytes", rss) <= min(series)
                assert row["max"].get(f"{key}.rss_bytes", rss) >= max(series)


def test_the_death_row_is_complete_and_last(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    rows = list(simulate(10, 60))
    for row in rows[:-1]:
        log.add(row)
    log.close(rows[-1])
    _, recent = read(tmp_path / "vitals.recent.jsonl")
    assert recent[-1]["t"] == rows[-1].t_seconds
    assert set(recent[-1]["procs"]) == set(rows[-1].processes)
    assert recent[-1]["machine"] == rows[-1].machine


def test_a_process_that_ended_inside_a_bucket_is_in_it(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    vitals = ProcessVitals(rss_anon_bytes=5)
    for tick in range(30):
        processes = {"1-1": vitals} | ({"2-2": vitals} if tick < 12 else {})
        log.add(VitalsRow(tick / 10, 0.0, vitals, len(processes), processes, {}))
    log.close()
    _, rows = read(tmp_path / "vitals.jsonl")
    assert any("2-2" in row["procs"] for row in rows if row["span"] == 10)


def test_each_row_is_on_file_when_add_returns(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    for row in simulate(2, 2):
        log.add(row)
        assert read(tmp_path / "vitals.recent.jsonl")[1][-1]["t"] == row.t_seconds


@pytest.fixture
def small_disk(mount_tmpfs: Callable[[str], Path]) -> Path:
    return mount_tmpfs("size=64k")


def test_a_full_disk_is_reported_once_and_leaves_no_torn_row(small_disk: Path) -> None:
    reports: list[tuple[str, str]] = []
    log = VitalsLog(VitalsFiles(small_disk, lambda what, why: reports.append((what, why))))
    rows = list(simulate(90, 8))
    for row in rows[:600]:
        log.add(row)
    assert [what for what, _ in reports] == ["vitals"]
    assert "No space left" in reports[0][1]
    for path in small_disk.glob("vitals*"):
        read(path)  # every line is whole
    (small_disk / "vitals.recent.jsonl").unlink(missing_ok=True)
    for row in rows[600:]:
        log.add(row)
    log.close()
    _, history = read(small_disk / "vitals.jsonl")
    assert history[-1]["t"] > 59.0  # it went on once there was space
    assert len(reports) == 1


def test_a_removed_folder_is_reported_and_survived(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    reports: list[str] = []
    log = VitalsLog(VitalsFiles(folder, lambda what, why: reports.append(what)))
    for number, row in enumerate(simulate(70, 2)):
        if number == 20:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        log.add(row)
    log.close()
    assert reports == ["vitals"]


def test_rows_that_run_backwards_are_left_out(tmp_path: Path) -> None:
    log = VitalsLog(VitalsFiles(tmp_path))
    first, second, third = list(simulate(0.3, 1))[:3]
    for row in (first, third, replace(second, t_seconds=0.05), replace(third, t_seconds=0.3)):
        log.add(row)
    log.close()
    times = [row["t"] for row in read(tmp_path / "vitals.recent.jsonl")[1]]
    assert times == sorted(times)
    assert 0.05 not in times


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc to count them in")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    log = VitalsLog(VitalsFiles(tmp_path))
    for row in simulate(1, 1):
        log.add(row)
    log.close()
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
