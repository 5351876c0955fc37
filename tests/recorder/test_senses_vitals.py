"""Vitals of real processes: what they do is what is read."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.platform import procfs
from rerail.platform.proc_files import read_start_ticks
from rerail.recorder.vitals.machine import parse_meminfo, parse_pressure
from rerail.recorder.vitals.sampler import Sampler
from rerail.records import VitalsRow
from rerail.vitals_columns import PROCESS_COLUMNS

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROGRAM = Path(__file__).parent.parent / "programs" / "senses_grows.py"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Grower:
    """The program that grows on command."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()
        start = read_start_ticks(self.process.pid)
        assert start is not None
        self.identity = (self.process.pid, start)
        self.key = f"{self.process.pid}-{start}"

    def do(self, what: str, amount: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {amount}\n")
        self.process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() in ("ready", "done")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def grower() -> Iterator[Grower]:
    made = Grower()
    yield made
    made.end()


@pytest.fixture
def sampler(tmp_path: Path) -> Iterator[Sampler]:
    made = Sampler(tmp_path, tmp_path)
    yield made
    made.close()


ticks = itertools.count()


def sample_all(
    sampler: Sampler, identities: list[tuple[int, int]], seconds: float = 1.1
) -> VitalsRow:
    """Rows for this long on a clock of our own, so that everybody's turn has come; the last one."""
    for _ in range(round(seconds * 10)):
        row = sampler.sample(next(ticks) / 10, identities)
    return row


def test_memory_is_split_by_kind(sampler: Sampler, grower: Grower) -> None:
    before = sample_all(sampler, [grower.identity]).processes[grower.key]
    grower.do("anon", 40 * MIB)
    grower.do("shared", 24 * MIB)
    after = sample_all(sampler, [grower.identity]).processes[grower.key]
    assert 39 * MIB <= after.rss_anon_bytes - before.rss_anon_bytes <= 48 * MIB
    assert 23 * MIB <= after.rss_shared_bytes - before.rss_shared_bytes <= 26 * MIB
    assert after.rss_file_bytes > 0


def test_resident_memory_is_in_the_very_next_row(sampler: Sampler, grower: Grower) -> None:
    before = sampler.sample(0.0, [grower.identity]).tree
    grower.do("anon", 64 * MIB)
    after = sampler.sample(0.1, [grower.identity]).tree
    assert after.rss_bytes - before.rss_bytes >= 60 * MIB


def test_threads_descriptors_and_cpu_are_seen_within_a_second(
    sampler: Sampler, grower: Grower
) -> None:
    before = sample_all(sampler, [grower.identity]).processes[grower.key]
    grower.do("threads", 7)
    grower.do("fds", 30)
    grower.do("burn", 0.3)
    after = sample_all(sampler, [grower.identity]).processes[grower.key]
    assert after.threads - before.threads == 7
    assert after.fds - before.fds == 30
    assert after.cpu_seconds - before.cpu_seconds >= 0.25


def test_the_tree_is_the_sum_and_totals_outlive_their_processes(sampler: Sampler) -> None:
    growers = [Grower() for _ in range(3)]
    identities = [grower.identity for grower in growers]
    try:
        growers[0].do("burn", 0.4)
        growers[0].do("fds", 10)
        both = sample_all(sampler, identities)
        assert both.process_count == 3
        for name in ("rss_anon_bytes", "threads", "fds", "cpu_seconds", "minor_faults"):
            parts = [getattr(vitals, name) for vitals in both.processes.values()]
            assert getattr(both.tree, name) == pytest.approx(sum(parts))
        growers[0].end()
        left = sample_all(sampler, identities, 0.1)
        assert left.process_count == 2
        assert set(left.processes) == {growers[1].key, growers[2].key}
        assert left.tree.cpu_seconds >= both.tree.cpu_seconds
        assert left.tree.fds == both.tree.fds - both.processes[growers[0].key].fds
        assert left.tree.threads == 2
    finally:
        for grower in growers:
            grower.end()


def test_forty_processes_are_all_in_the_row_and_kept_up_to_date(sampler: Sampler) -> None:
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(40)]
    grower = Grower()
    try:
        identities = [(s.pid, read_start_ticks(s.pid) or 0) for s in sleepers]
        identities.append(grower.identity)
        row = sample_all(sampler, identities)
        assert row.process_count == 41
        assert row.tree.threads == 41
        grower.do("anon", 32 * MIB)
        grower.do("fds", 20)
        before = row.processes[grower.key]
        row = sample_all(sampler, identities, 14.0)  # everybody's turn, idle ones too
        after = row.processes[grower.key]
        assert after.fds - before.fds == 20
        assert after.rss_anon_bytes - before.rss_anon_bytes >= 30 * MIB
        assert row.tree.rss_anon_bytes == sum(
            vitals.rss_anon_bytes for vitals in row.processes.values()
        )
    finally:
        grower.end()
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_a_reused_pid_is_not_taken_for_the_process(sampler: Sampler, grower: Grower) -> None:
    pid, start = grower.identity
    row = sampler.sample(0.0, [(pid, start - 1)])
    assert row.process_count == 0
    assert row.tree.rss_bytes == 0


def test_a_zombie_is_not_in_the_row(sampler: Sampler) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = (child.pid, read_start_ticks(child.pid) or 0)
    assert sampler.sample(0.0, [identity]).process_count == 1
    child.kill()
    # Until its parent takes note it stays a zombie; the wait is for the kill to arrive.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    row = sampler.sample(0.1, [identity])
    child.communicate()
    assert row.process_count == 0


def test_the_machine_is_read(sampler: Sampler, grower: Grower) -> None:
    row = sample_all(sampler, [grower.identity])
    assert 0 < row.machine["available_bytes"] <= row.machine["total_bytes"]
    assert row.machine["recorder_cpu_seconds"] > 0
    assert row.machine["recorder_rss_bytes"] > MIB


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    sampler = Sampler(tmp_path, tmp_path)
    grower = Grower()
    sample_all(sampler, [grower.identity])
    grower.end()
    sample_all(sampler, [grower.identity], 0.1)
    sampler.close()
    assert opened() == before


names = st.text(st.characters(exclude_characters="\0", codec="latin-1"), max_size=15)


@unhurried
@given(names, st.lists(st.integers(0, 10**18), min_size=49, max_size=49))
def test_any_process_name_is_parsed(name: str, numbers: list[int]) -> None:
    text = f"123 ({name}) S " + " ".join(map(str, numbers))
    stat = procfs.parse_stat(text.encode("latin-1"))
    assert stat.name == name.encode("latin-1").decode(errors="replace")
    assert stat.parent_pid == numbers[0]
    assert stat.start_ticks == numbers[18]
    assert stat.cpu_ticks == numbers[10] + numbers[11]


@unhurried
@given(st.binary(max_size=300))
def test_parsers_survive_any_bytes(text: bytes) -> None:
    parse_meminfo(text)
    parse_pressure(text)
    procfs.find_number(text, b"VmRSS:")
    try:
        procfs.parse_stat(text)
    except (ValueError, IndexError):
        pass
    for column in PROCESS_COLUMNS:
        if column.source in ("status", "io"):
            procfs.reader_of(column)(text)


def test_pressure_and_meminfo_are_named_as_the_run_folder_says() -> None:
    pressure = b"some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.25 avg60=0 total=0\n"
    assert parse_pressure(pressure) == {
        "psi_memory_some_avg10": 1.5,
        "psi_memory_full_avg10": 0.25,
    }
    memory = b"MemTotal:  100 kB\nMemFree: 10 kB\nMemAvailable: 60 kB\nSwapFree: 5 kB\n"
    assert parse_meminfo(memory) == {
        "total_bytes": 102400,
        "available_bytes": 61440,
        "swap_free_bytes": 5120,
    }
