from __future__ import annotations

import pytest
from run_builders import MIB, box, info, process, recorded, row, steps

from rerail.evidence.run.collect import collect_recorded
from rerail.evidence.run.memory import (
    limit_uses,
    memory_at_peak,
    read_memory_growth,
    read_near_memory_limits,
    tree_peak,
)
from rerail.evidence.run.oom import kernel_kills, read_oom_kills
from rerail.records import AfterDeath, Event, MemoryLimit, Outcome, ProcessVitals, VitalsRow


def vitals_of(function, seconds=60, every=0.5, **fields):
    return [
        row(i * every, p100=ProcessVitals(rss_anon_bytes=int(function(i * every) * MIB), **fields))
        for i in range(int(seconds / every))
    ]


def test_a_leak_is_given_per_step():
    rows = vitals_of(lambda t: 500 + 8 * t)  # 2 steps a second: 4 MiB a step
    (seen,) = read_memory_growth(
        recorded(vitals=rows, boxes=[box(optimizer_steps=120, history=steps(120))])
    )
    assert seen.data["shape"] == "leak" and seen.data["role"] == "main"
    assert seen.data["bytes_per_step"] == pytest.approx(4 * MIB, rel=0.02)
    assert "4.0 MiB with every step" in seen.text or "4 MiB with every step" in seen.text
    assert seen.source.startswith("vitals:")


def test_without_steps_it_is_per_second():
    (seen,) = read_memory_growth(recorded(vitals=vitals_of(lambda t: 500 + 8 * t)))
    assert "bytes_per_step" not in seen.data
    assert seen.data["bytes_per_second"] == pytest.approx(8 * MIB, rel=0.02)


def test_a_step_history_that_covers_only_the_end_still_gives_the_rate():
    late = [p for p in steps(120) if p.step >= 118]
    rows = vitals_of(lambda t: 500 + 8 * t)
    (seen,) = read_memory_growth(
        recorded(vitals=rows, boxes=[box(optimizer_steps=120, history=late)])
    )
    assert seen.data.get("bytes_per_step", 4 * MIB) == pytest.approx(4 * MIB, rel=0.1)


def test_start_up_is_not_a_leak():
    loading = vitals_of(lambda t: min(t * 100, 800))  # 8 s of loading, then level
    history = [p for p in steps(240) if p.t_seconds >= 9]
    history = [type(p)(i + 1, p.t_seconds, p.loss) for i, p in enumerate(history)]
    run = recorded(vitals=loading, boxes=[box(optimizer_steps=100, history=history)])
    assert read_memory_growth(run) == []


def test_what_a_program_gives_back_at_its_end_does_not_hide_a_leak():
    rows = vitals_of(lambda t: 500 + 8 * t if t < 55 else 300)
    run = recorded(vitals=rows, boxes=[box(optimizer_steps=110, history=steps(110))])
    (seen,) = read_memory_growth(run)
    assert seen.data["shape"] == "leak" and seen.data["to_bytes"] > 900 * MIB


def test_start_up_is_reckoned_from_the_pace_when_the_first_steps_are_forgotten():
    rows = vitals_of(lambda t: min(t * 40, 800))  # level from 20 s on
    known = [type(p)(p.step, 22 + p.step * 0.1, 1.0) for p in steps(380) if p.step > 100]
    run = recorded(vitals=rows, boxes=[box(optimizer_steps=380, history=known)])
    assert read_memory_growth(run) == []


def test_one_large_piece_of_work_is_no_leak():
    worker = process(101, "loader-worker")
    rows = [
        row(t * 0.1, p101=ProcessVitals(rss_anon_bytes=int((200 + 25 * t) * MIB)))
        for t in range(30)
    ]
    history = [type(p)(p.step, p.step * 0.01, 1.0) for p in steps(15)]
    run = recorded(
        processes=[process(), worker], vitals=rows, boxes=[box(optimizer_steps=15, history=history)]
    )
    (seen,) = read_memory_growth(run)
    assert seen.data["shape"] == "step" and "bytes_per_step" not in seen.data
    assert "one piece of work" in seen.text


def test_a_jump_is_a_step_and_says_when():
    (seen,) = read_memory_growth(recorded(vitals=vitals_of(lambda t: 300 + 400 * (t > 40))))
    assert seen.data["shape"] == "step"
    assert 37 <= seen.data["jump_t_seconds"] <= 43
    assert "jumped" in seen.text


def test_the_most_growing_of_each_role_speaks_for_the_others():
    workers = [process(200 + i, "loader-worker") for i in range(3)]
    rows = [
        row(
            t,
            p100=ProcessVitals(rss_anon_bytes=500 * MIB),
            **{
                f"p{200 + i}": ProcessVitals(rss_anon_bytes=int((100 + (i + 1) * t) * MIB))
                for i in range(3)
            },
        )
        for t in range(60)
    ]
    (seen,) = read_memory_growth(recorded(processes=[process(), *workers], vitals=rows))
    assert seen.data["pid"] == 202 and seen.data["processes"] == 3
    assert "DataLoader worker" in seen.text and "3 processes" in seen.text


def test_file_pages_are_not_growth():
    rows = [
        row(t, p100=ProcessVitals(rss_anon_bytes=MIB, rss_file_bytes=t * 50 * MIB))
        for t in range(60)
    ]
    assert read_memory_growth(recorded(vitals=rows)) == []


def test_the_peak_includes_the_maxima_of_thinned_rows():
    thinned = VitalsRow(
        1.0, 1.0, ProcessVitals(rss_anon_bytes=10), 1, {}, {}, {}, {"tree.rss_bytes": 99.0}
    )
    peak = tree_peak(recorded(vitals=[thinned, row(2.0, p100=ProcessVitals(rss_anon_bytes=50))]))
    assert peak is not None and (peak.rss_bytes, peak.t_seconds) == (99, 1.0)
    assert tree_peak(recorded()) is None


def test_growth_is_not_a_share_that_moves_when_workers_end():
    """A parent counts a third of what it shares with two workers, and all of it without them."""
    rows = []
    for at in range(120):
        elsewhere = (200 if at < 80 else 0) * MIB
        parent = ProcessVitals(rss_anon_bytes=400 * MIB, anon_elsewhere_bytes=elsewhere)
        rows.append(row(at * 0.5, p100=parent))
    assert read_memory_growth(recorded(vitals=rows)) == []


def test_at_the_peak_the_main_process_is_there_though_the_row_does_not_name_it():
    worker = ProcessVitals(rss_anon_bytes=300 * MIB)
    ended = ProcessVitals(rss_anon_bytes=50 * MIB)
    first = row(1.0, p100=ProcessVitals(rss_anon_bytes=200 * MIB), p101=worker, p102=ended)
    tree = ProcessVitals(rss_anon_bytes=600 * MIB)
    last = VitalsRow(2.0, 0.0, tree, 2, {"101-7": ProcessVitals(rss_anon_bytes=400 * MIB)}, {})
    known = [process(), process(pid=101), process(pid=102, ended_t_seconds=1.5)]
    peak = memory_at_peak(recorded(vitals=[first, last], processes=known))
    assert peak is not None and peak.row is last
    sizes = {key: vitals.rss_bytes for key, vitals in peak.processes.items()}
    assert sizes == {"100-7": 200 * MIB, "101-7": 400 * MIB}
    assert sum(sizes.values()) == peak.row.tree.rss_bytes


@pytest.mark.parametrize(
    ("count", "tree", "notion"),
    [
        (1, ProcessVitals(rss_anon_bytes=9), "proportional"),
        (
            2,
            ProcessVitals(rss_anon_bytes=9, anon_elsewhere_bytes=3, proportional=2),
            "proportional",
        ),
        (
            2,
            ProcessVitals(rss_anon_bytes=9, anon_elsewhere_bytes=3, proportional=1),
            "private, shared counted once",
        ),
        (2, ProcessVitals(rss_anon_bytes=9), "resident, added up"),  # before there were the columns
    ],
)
def test_a_row_says_how_its_memory_was_counted(count, tree, notion):
    thinned = VitalsRow(1.0, 1.0, tree, count, {}, {})
    assert thinned.memory_notion == notion
    peak = tree_peak(recorded(vitals=[thinned]))
    assert peak is not None and peak.notion == notion


def test_a_watermark_above_the_limit_is_of_an_older_run():
    """As recordings have it that took the group's own peak: 700 MiB of a limit of 600."""
    limit = MemoryLimit("cgroup-v1:/job_7", 600 * MIB, peak_bytes=700 * MIB)
    machine = {"cgroup_usage_bytes": 200.0 * MIB, "cgroup_limit_bytes": 600.0 * MIB}
    rows = [row(1.0, machine, p100=ProcessVitals(rss_anon_bytes=190 * MIB))]
    (use,) = limit_uses(recorded(vitals=rows, after=AfterDeath(memory_limits=[limit])))
    assert use.used_bytes == 200 * MIB
    assert limit_uses(recorded(after=AfterDeath(memory_limits=[limit]))) == []


LIMIT = MemoryLimit("cgroup-v1:/job_7", 700 * MIB, peak_bytes=700 * MIB, oom_kills=1, fail_count=90)


def test_near_a_cgroup_limit():
    rows = [
        row(
            1.0,
            {
                "cgroup_usage_bytes": 690.0 * MIB,
                "cgroup_limit_bytes": 700.0 * MIB,
                "total_bytes": 1e12,
                "available_bytes": 9e11,
            },
            p100=ProcessVitals(rss_anon_bytes=650 * MIB),
        )
    ]
    run = recorded(vitals=rows, after=AfterDeath(memory_limits=[LIMIT]))
    (seen,) = read_near_memory_limits(run)
    assert seen.data["limit_bytes"] == 700 * MIB and seen.data["used_bytes"] == 700 * MIB
    assert "700 MiB" in seen.text and seen.data["source"] == "cgroup-v1:/job_7"


def test_a_cgroup_full_of_file_pages_is_not_near_its_limit():
    rows = [
        row(
            1.0,
            {"cgroup_usage_bytes": 699.0 * MIB, "cgroup_limit_bytes": 700.0 * MIB},
            p100=ProcessVitals(rss_anon_bytes=90 * MIB),
        )
    ]
    assert read_near_memory_limits(recorded(vitals=rows)) == []


def test_unlimited_cgroups_are_no_limits():
    unlimited = MemoryLimit("cgroup-v1:/", (1 << 63) - 4096, peak_bytes=1 << 40)
    assert limit_uses(recorded(after=AfterDeath(memory_limits=[unlimited]))) == []


KERNEL = [
    "[100.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,oom_memcg=/job_7,"
    "task_memcg=/job_7,task=python,pid=101,uid=0",
    "[100.1] Memory cgroup out of memory: Killed process 101 (python) total-vm:9kB, anon-rss:8kB",
    "[100.2] Out of memory: Killed process 4242 (chrome) total-vm:1kB",
]


def test_kernel_lines_of_one_kill_are_one_kill():
    kills = kernel_kills(KERNEL)
    assert [(k.pid, k.is_cgroup, k.cgroup, k.line) for k in kills] == [
        (101, True, "/job_7", 0),
        (4242, False, None, 2),
    ]


def test_a_kernel_line_that_names_a_worker_is_an_oom_kill_of_that_worker():
    worker = process(101, "loader-worker", signal="SIGKILL", ended_t_seconds=9.0)
    run = recorded(
        processes=[process(exit_code=1), worker],
        after=AfterDeath(kernel_lines=KERNEL, memory_limits=[LIMIT]),
    )
    (seen,) = read_oom_kills(run)
    assert seen.data["pid"] == 101 and seen.data["role"] == "loader-worker"
    assert seen.data["limit_bytes"] == 700 * MIB and seen.data["scope"] == "cgroup"
    assert seen.source == "kernel:1" and "700 MiB" in seen.text


def test_the_counter_alone_is_enough_and_blames_the_first_sigkill():
    early = process(101, "loader-worker", signal="SIGKILL", ended_t_seconds=9.0)
    late = process(102, "loader-worker", signal="SIGKILL", ended_t_seconds=10.0)
    run = recorded(
        processes=[process(exit_code=1), late, early], after=AfterDeath(memory_limits=[LIMIT])
    )
    (seen,) = read_oom_kills(run)
    assert seen.data["pid"] == 101 and seen.data["count"] == 1


def test_a_sigkill_without_a_witness_is_no_oom_kill():
    dead = process(signal="SIGKILL")
    quiet = MemoryLimit("cgroup-v1:/job", 700 * MIB, peak_bytes=100 * MIB)
    assert read_oom_kills(recorded(processes=[dead], after=AfterDeath(memory_limits=[quiet]))) == []


def test_a_sigkill_while_the_kernel_killed_nothing_was_not_for_memory():
    dead = process(signal="SIGKILL")
    (seen,) = read_oom_kills(recorded(processes=[dead], after=AfterDeath(machine_oom_kills=0)))
    assert (seen.kind, seen.data["pid"]) == ("no-oom-kill", dead.pid)
    # Another job's kill, or no counter to read: nothing is said.
    for kills in (1, None):
        after = AfterDeath(machine_oom_kills=kills)
        assert read_oom_kills(recorded(processes=[dead], after=after)) == []
    # The log names the kills of other jobs, and there are no more than these.
    lines = ["Memory cgroup out of memory: Killed process 4711 (python) total-vm:6kB"]
    for kills, said in ((1, ["no-oom-kill"]), (2, [])):
        after = AfterDeath(kernel_lines=lines, machine_oom_kills=kills)
        seen_kinds = [o.kind for o in read_oom_kills(recorded(processes=[dead], after=after))]
        assert seen_kinds == said
    # Rerail itself ended it for want of progress.
    stalled = info(Outcome("hang", "made no progress", signal="SIGKILL"))
    quiet = AfterDeath(machine_oom_kills=0)
    assert read_oom_kills(recorded(info=stalled, processes=[dead], after=quiet)) == []
    # Short of memory, a daemon may have been quicker than the kernel.
    short = [row(1.0, {"total_bytes": 100.0 * MIB, "available_bytes": 15.0 * MIB})]
    after = AfterDeath(machine_oom_kills=0)
    assert read_oom_kills(recorded(processes=[dead], vitals=short, after=after)) == []


def test_a_kill_that_somebody_sent_is_not_pinned_on_a_process():
    run = recorded(
        processes=[process(signal="SIGKILL")],
        events=[Event(1.0, "signal-forwarded", {"signal": "SIGKILL"})],
        after=AfterDeath(memory_limits=[LIMIT]),
    )
    (seen,) = read_oom_kills(run)
    assert seen.data["pid"] is None


def test_the_place_before_a_kill_for_memory_is_that_of_the_killed_process() -> None:
    place = {"file": "/data/job/prepare.py", "line": 7, "function": "prepare"}
    dead = process(101, "child", signal="SIGKILL", ended_t_seconds=9.5, name="python")
    run = recorded(
        processes=[process(), dead],
        events=[
            Event(8.0, "memory-place", {"pid": 100, "taken_t": 9.4, **place, "line": 1}),
            Event(9.2, "memory-place", {"pid": 101, "taken_t": 9.1, **place}),
        ],
        after=AfterDeath(
            kernel_lines=["Memory cgroup out of memory: Killed process 101 (python)"],
            memory_limits=[MemoryLimit("cgroup:/job", 300 * MIB, 300 * MIB, 1)],
        ),
    )
    facts = collect_recorded(run).facts
    assert (facts["where"]["line"], facts["where"]["function"]) == (7, "prepare")
    assert facts["seen_seconds_before"] == 0.4
