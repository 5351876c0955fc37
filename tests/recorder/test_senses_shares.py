"""How much memory does a tree of processes use? Real trees, with what they share known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_driver import rerail_run, wait_until

from rerail.diagnosis import explain_run
from rerail.evidence import memory_at_peak, read_material
from rerail.platform.proc_files import read_start_ticks
from rerail.platform.procfs import SharedOut, fork_source, read_shared_out
from rerail.recorder.vitals import shares
from rerail.recorder.vitals.sampler import Sampler
from rerail.recorder.vitals.shares import Resident, Shares
from rerail.records import VitalsRow
from rerail.store import Store

PROGRAM = Path(__file__).parent.parent / "programs" / "shares_memory.py"
MIB = 1 << 20
HANG_SECONDS = 180.0

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
linux = pytest.mark.skipif(
    read_shared_out(os.getpid()) is None, reason="the kernel has no proportional sizes"
)


@contextmanager
def tree(how: str, *more: str) -> Iterator[list[tuple[int, int]]]:
    """A parent and its workers, all in place; the parent first."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), how, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        pids = [process.pid, *(int(word) for word in process.stdout.readline().split())]
        yield [(pid, read_start_ticks(pid) or 0) for pid in pids]
    finally:
        process.stdin.close()  # the word to end, for all of them
        process.wait(HANG_SECONDS)
        process.stdout.close()


def sampled(
    tmp_path: Path,
    processes: list[tuple[int, int]],
    until: Callable[[VitalsRow], bool] = lambda row: row.memory_notion == "proportional",
) -> tuple[VitalsRow, int]:
    """The row that was waited for, and the highest sum on the way to it."""
    sampler = Sampler(tmp_path, tmp_path)
    try:
        highest, deadline = 0, time.monotonic() + HANG_SECONDS
        at = 0.0  # ten rows a second, by the sampler's clock
        while time.monotonic() < deadline:
            row = sampler.sample(at, processes)
            highest, at = max(highest, row.tree.rss_bytes), at + 0.1
            if at > 1.0 and until(row):
                return row, highest
        raise AssertionError("no such row")
    finally:
        sampler.close()


def parts_add_up(row: VitalsRow) -> bool:
    return sum(vitals.rss_bytes for vitals in row.processes.values()) == row.tree.rss_bytes


@linux
def test_forked_workers_share_an_array_that_counts_once(tmp_path: Path) -> None:
    with tree("fork", "4") as processes:
        row, highest = sampled(tmp_path, processes)
    assert row.process_count == 5
    assert row.tree.rss_anon_bytes > 5 * 300 * MIB  # as resident sizes have it
    assert 300 * MIB < row.tree.rss_bytes < 400 * MIB
    assert highest < 400 * MIB  # nor was there a moment at which it counted twice
    assert parts_add_up(row)


@linux
def test_what_forked_workers_write_over_counts_in_each(tmp_path: Path) -> None:
    """Pages that a worker has written to are its own: 300 MiB, and twice 100 more."""
    with tree("fork-and-write", "2") as processes:
        row, _ = sampled(tmp_path, processes)
    assert 500 * MIB < row.tree.rss_bytes < 600 * MIB
    assert parts_add_up(row)


@linux
def test_spawned_workers_have_their_own(tmp_path: Path) -> None:
    with tree("spawn", "2") as processes:
        row, _ = sampled(tmp_path, processes)
    assert 3 * 100 * MIB < row.tree.anon_bytes < 3 * 140 * MIB
    assert parts_add_up(row)


@linux
def test_shared_memory_counts_once(tmp_path: Path) -> None:
    with tree("shm", "2") as processes:
        row, highest = sampled(tmp_path, processes)
    assert row.tree.rss_shared_bytes > 3 * 99 * MIB
    assert 99 * MIB < row.tree.shared_bytes < 110 * MIB
    assert highest < 250 * MIB
    assert parts_add_up(row)


@linux
def test_a_mapped_file_counts_once_and_is_not_held(tmp_path: Path) -> None:
    """Its pages are in the sum, as pages of files; the kernel can take them back at any time."""
    data = tmp_path / "data.bin"
    data.write_bytes(b"\1" * (100 * MIB))
    with tree("mapped", "2", str(data)) as processes:
        row, _ = sampled(tmp_path, processes)
    assert row.tree.rss_file_bytes > 3 * 100 * MIB
    assert 100 * MIB < row.tree.file_bytes < 150 * MIB
    assert row.tree.held_bytes < 100 * MIB
    assert parts_add_up(row)


@linux
def test_the_cache_of_a_file_that_was_only_read_is_nobodys(tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"\1" * (100 * MIB))
    with tree("read", "1", str(data)) as processes:
        row, _ = sampled(tmp_path, processes)
    assert row.tree.rss_bytes < 90 * MIB


@linux
def test_what_ended_workers_had_in_common_counts_in_their_parent(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path, tmp_path)
    try:
        with tree("fork", "3") as processes:
            rows = [sampler.sample(at / 10, processes) for at in range(20)]
            assert rows[-1].memory_notion == "proportional"
            assert rows[-1].processes[f"{processes[0][0]}-{processes[0][1]}"].rss_bytes < 150 * MIB
            fewer = sampler.sample(2.0, processes[:3])
            alone = sampler.sample(2.1, processes[:1])
    finally:
        sampler.close()
    assert 250 * MIB < fewer.tree.rss_bytes < 400 * MIB
    assert 300 * MIB < alone.tree.rss_bytes < 400 * MIB


@pytest.mark.thorough
@linux
def test_a_recorded_run_with_forked_workers_has_its_memory_once(tmp_path: Path) -> None:
    """In the facts, and in the report's table, where the main process is and the parts add up."""
    home = tmp_path / "home"
    command = rerail_run(home, sys.executable, str(PROGRAM), "fork", "3")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        folder = Store(home).resolve("last")
        wait_until(
            lambda: any(row.tree.proportional == 4 for row in folder.recent_vitals()),
            "a row with all four",
        )
        process.stdin.close()
    assert process.returncode == 0
    run = read_material(folder)
    facts = explain_run(folder).to_json()["facts"]
    assert 300 * MIB < facts["peak_rss_bytes"] < 450 * MIB
    assert facts["memory_notion"] in ("proportional", "private, shared counted once")
    peak = memory_at_peak(run)
    assert peak is not None
    roles = [run.by_key[key].role for key in peak.processes]
    assert "main" in roles
    parts = sum(vitals.rss_bytes for vitals in peak.processes.values())
    assert parts == pytest.approx(peak.row.tree.rss_bytes, rel=0.02)


@linux
def test_a_fork_is_told_from_a_new_program() -> None:
    with tree("fork", "1") as forked:
        assert fork_source(forked[1][0]) == forked[0][0]
    with tree("spawn", "1") as spawned:
        assert fork_source(spawned[1][0]) == 0


def test_one_process_is_never_walked_through() -> None:
    def refuse(pid: int) -> SharedOut | None:
        raise AssertionError("read")

    alone = Shares(refuse)
    resident = {7: Resident(100 * MIB, 50 * MIB)}
    share = alone.begin(0.0, 7, resident)
    for at in range(1000):
        alone.update(at / 10, resident)
    assert (share.anon_elsewhere, share.file_part, share.is_proportional) == (0, 1.0, True)


def test_where_the_kernel_does_not_tell_it_stays_an_estimate() -> None:
    refused = Shares(lambda pid: None)
    resident = {7: Resident(100 * MIB, 10 * MIB), 8: Resident(90 * MIB, 50 * MIB)}
    first = refused.begin(0.0, 7, resident)
    second = refused.begin(0.0, 8, resident)
    for at in range(100):
        refused.update(at / 10, resident)
    counted = first.file_part * 10 + second.file_part * 50
    assert counted == pytest.approx(50)  # as in the process that has most of them
    assert not second.is_proportional


@unhurried
@given(st.integers(1, 12), st.integers(1, 4000), st.integers(50, 600))
def test_the_cost_stays_below_a_five_hundredth(count: int, mib: int, seconds: int) -> None:
    """Whatever a read takes, here 20 ms for a GiB, after the first round it is paid for."""
    clock = [0.0]

    def read(pid: int) -> SharedOut:
        clock[0] += 0.02 * mib / 1024
        half = mib * MIB // 2
        return SharedOut(mib * MIB, 0, 0, half, 0, 0)

    several = Shares(read, lambda: clock[0])
    resident: dict[int, Resident] = {}
    for pid in range(1, count + 1):
        resident[pid] = Resident(mib * MIB, 0)
        several.begin(0.0, pid, resident)
    for at in range(seconds * 10):
        several.update(at / 10, resident)
    one_round = count * 0.02 * mib / 1024
    assert clock[0] <= shares.FIRST_CREDIT_SECONDS + shares.MOST_CPU_SHARE * seconds + one_round
    assert shares.MOST_CPU_SHARE < 0.002
