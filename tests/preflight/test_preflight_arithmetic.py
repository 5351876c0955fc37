"""Extrapolation and prediction from figures in hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.preflight.audit.known import numbers
from rerail.preflight.memory.extrapolation import fit
from rerail.preflight.memory.plan import plan_of
from rerail.preflight.memory.prediction import (
    fragmentation_bytes,
    heap_swing_bytes,
    kept_by_later_workers,
    predict,
    step_peaks,
)
from rerail.preflight.memory.proc_memory import DataMapping, ProcessMemory, counted_once
from rerail.preflight.memory.rehearsal import Rehearsal, Report, Still, gpu_use
from rerail.preflight.memory.what_if import points_to_measure
from rerail.records import BlackBox, LoaderSettings, ProcessRecord

MIB = 1 << 20
sizes = st.floats(0, 1e12)


@given(constant=sizes, slope=st.floats(0, 1e9), x=st.integers(1, 64), target=st.integers(1, 4096))
def test_a_straight_line_is_found_again(constant: float, slope: float, x: int, target: int) -> None:
    curve = fit([(at, constant + slope * at) for at in (x, 2 * x, 4 * x)])
    assert curve.at(target) == pytest.approx(constant + slope * target, rel=1e-6, abs=1.0)


@given(bend=st.floats(1e3, 1e6), share=st.floats(0, 1), x=st.integers(8, 64))
def test_a_clear_bend_is_found_again(bend: float, share: float, x: int) -> None:
    slope = share * bend

    def true(at: float) -> float:
        return 1e6 + slope * at + bend * at * at

    curve = fit([(at, true(at)) for at in (x, 2 * x, 4 * x)])
    assert curve.bend > 0
    assert curve.at(16 * x) == pytest.approx(true(16 * x), rel=1e-6)


@given(level=st.floats(1e6, 1e10), noise=st.lists(st.floats(-1, 1), min_size=3, max_size=3))
def test_what_two_measurements_differ_by_is_no_bend(level: float, noise: list[float]) -> None:
    shifts = [0.007 * level * share for share in noise]
    curve = fit([(at, level + shift) for at, shift in zip((8, 16, 32), shifts, strict=True)])
    assert curve.bend == 0.0
    assert curve.uncertainty_at(128) >= 0.015 * level  # and it is not called certain either


@given(constant=st.floats(0, 1e9), slope=st.floats(1, 1e6), limit=st.floats(1, 1e12))
def test_the_largest_value_below_a_limit_is_the_largest(
    constant: float, slope: float, limit: float
) -> None:
    curve = fit([(1, constant + slope), (2, constant + 2 * slope)])
    found = curve.largest_below(limit, 8)
    if found is not None:
        assert curve.at(found) <= limit < curve.at(found + 1)
    else:
        assert curve.at(1) > limit or curve.at(1 << 30) <= limit


@given(present=st.integers(1, 4096), wanted=st.integers(2, 1 << 16))
def test_nothing_above_what_was_asked_for_is_measured(present: int, wanted: int) -> None:
    found = points_to_measure(present, max(wanted, present + 1))
    assert present not in found and len(set(found)) == len(found) <= 2
    assert all(1 <= value <= max(wanted, present + 1) for value in found)


def report(pid: int, base: int, peaks: list[int]) -> Report:
    marks = [{"mark": "optimizer made", "step": 0, "VmRSS": base, "VmHWM": base, "t": 0.0}]
    for step, peak in enumerate(peaks):
        t = 10.0 + step
        marks.append({"mark": "backward done", "step": step, "VmRSS": base, "VmHWM": peak, "t": t})
        marks.append({"mark": "step done", "step": step + 1, "VmRSS": base, "VmHWM": base, "t": t})
    return Report(pid, "steps", "", len(peaks), marks, {}, [])


@given(
    base=st.integers(100, 4000),
    added=st.lists(st.integers(0, 4000), min_size=1, max_size=15),
    rest=st.integers(0, 100),
)
def test_the_prediction_is_never_below_what_was_seen(
    base: int, added: list[int], rest: int
) -> None:
    peaks = [(base + more) * MIB for more in added]
    still = Still([ProcessMemory(7, (base - rest) * MIB, (base - rest) * MIB)])
    found = predict(Rehearsal(("python",), "steps", 1.0, [report(7, base * MIB, peaks)], still))
    assert found.peak_bytes >= max(*peaks, base * MIB) - MIB
    assert found.peak_bytes <= 1.4 * max(*peaks, base * MIB) + MIB
    assert found.low_bytes <= found.peak_bytes <= found.high_bytes


def test_workers_of_a_later_epoch_keep_what_their_parent_writes_over() -> None:
    parent = report(7, 300 * MIB, [500 * MIB, 520 * MIB, 520 * MIB])
    for mark in parent.marks:
        mark["RssAnon"] = 400 * MIB if mark["mark"] == "step done" else 200 * MIB
    still = Still([ProcessMemory(7, 400 * MIB, 300 * MIB), ProcessMemory(8, 250 * MIB, 100 * MIB)])

    def kept(persistent: bool, begun: int) -> int:
        loader = LoaderSettings(1, 8, 2, "fork", False, persistent)
        box = BlackBox(7, 1, 1, "3.11", [], 0.0, True, True, loaders=[loader])
        records = [
            ProcessRecord(7, 1, 1, "main", "python", [], 0.0),
            ProcessRecord(8, 2, 7, "loader-worker", "python", [], 1.0),
        ]
        told = replace(parent, workers_begun_step=begun)
        run = Rehearsal(("python",), "steps", 1.0, [told], still, records, [box])
        return kept_by_later_workers(run)

    assert kept(False, 0) == 200 * MIB  # before the first step: all is still to come
    assert kept(True, 0) == 0
    assert 0 < kept(False, 2) <= 224 * MIB  # one step since then: a part is measured
    assert kept(False, 1) == 0  # two steps since then: measured


def test_a_gpu_that_is_nearly_full_is_risky_and_an_idle_one_is_not_named() -> None:
    gib = 1 << 30
    rows = [
        {"gpu0_used_bytes": 1 * gib, "gpu0_total_bytes": 24 * gib, "gpu1_used_bytes": 20 * gib},
        {"gpu0_used_bytes": 23 * gib, "gpu1_used_bytes": 20 * gib, "gpu1_total_bytes": 24 * gib},
        {"total_bytes": 64 * gib},
    ]
    found = gpu_use(rows)
    assert [(g.index, g.before_bytes, g.peak_bytes) for g in found] == [
        (0, gib, 23 * gib),
        (1, 20 * gib, 20 * gib),
    ]
    plan = plan_of(Rehearsal(("python",), "steps", 1.0, gpus=found), {})
    assert [(f.id, f.level) for f in plan.findings()] == [
        ("host-oom", "fine"),
        ("gpu-oom", "risky"),
    ]


def test_step_peaks_belong_to_their_steps() -> None:
    assert step_peaks(report(1, 10, [50, 70, 60])) == [50, 70, 60]


def test_mapped_data_is_counted_whole_and_once() -> None:
    mapping = DataMapping("/data/x.npy", 1000 * MIB, 100 * MIB, 50 * MIB)
    processes = [ProcessMemory(pid, 300 * MIB, 150 * MIB, 0, 150 * MIB) for pid in (1, 2)]
    still = Still(processes, {1: [mapping], 2: [mapping]})
    once, touched = counted_once(still.processes, still.mappings)
    assert (once, touched) == ((300 + 50 + 100) * MIB, 100 * MIB)
    found = predict(Rehearsal(("python",), "steps", 1.0, [report(9, 0, [0])], still))
    assert found.mapped_bytes == 1000 * MIB
    assert found.held_bytes == 350 * MIB


@given(added=st.integers(0, 1 << 40), steps=st.integers(1, 100))
def test_more_steps_seen_leave_less_to_come(added: int, steps: int) -> None:
    assert fragmentation_bytes(added, steps + 1) <= fragmentation_bytes(added, steps) <= 0.4 * added
    assert fragmentation_bytes(added, steps, has_seen_an_epoch=True) <= fragmentation_bytes(
        added, steps
    )


def with_private(pid: int, left: list[int]) -> Report:
    found = report(pid, 300 * MIB, [500 * MIB] * len(left))
    done = [mark for mark in found.marks if mark["mark"] == "step done"]
    for mark, size in zip(done, left, strict=True):
        mark["RssAnon"] = size * MIB
    return found


def test_a_heap_that_goes_up_and_down_swings_and_a_growing_first_step_is_not() -> None:
    assert heap_swing_bytes(with_private(7, [100, 250, 300, 300, 300])) == 0
    assert heap_swing_bytes(with_private(7, [100, 250, 300, 300, 340])) == 40 * MIB
    assert heap_swing_bytes(with_private(7, [100, 250])) == 0


def test_what_a_swinging_heap_leaves_is_added_beside_later_workers_only() -> None:
    """Unless the highest step, at 500 MiB here, has it in it already."""
    calm, swinging = ([200, 200, *rest] for rest in ([200] * 5, [200, 200, 200, 200, 240]))

    def peak(left: list[int], begun: int, rest_mib: int) -> int:
        told = replace(with_private(7, left), workers_begun_step=begun)
        still = Still([ProcessMemory(7, rest_mib * MIB, rest_mib * MIB)])
        return predict(Rehearsal(("python",), "steps", 1.0, [told], still)).peak_bytes

    assert peak(calm, 0, 500) == peak(swinging, 0, 500)
    assert peak(swinging, 3, 500) - peak(calm, 3, 500) == 40 * MIB
    assert peak(swinging, 3, 485) - peak(calm, 3, 485) == 25 * MIB
    assert peak(swinging, 3, 400) == peak(calm, 3, 400)


def test_an_epoch_that_was_seen_to_end_leaves_less_to_come() -> None:
    before = report(7, 300 * MIB, [700 * MIB] * 15)
    begun = {"mark": "loop begun", "step": 6, "VmRSS": 0, "VmHWM": 0, "t": 12.0}
    after = replace(before, marks=[*before.marks, begun])
    still = Still([ProcessMemory(7, 400 * MIB, 400 * MIB)])
    unseen, seen = (
        predict(Rehearsal(("python",), "steps", 1.0, [each], still)) for each in (before, after)
    )
    assert (unseen.peak_bytes - 700 * MIB, seen.peak_bytes - 700 * MIB) == (40 * MIB, 10 * MIB)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4))
def test_versions_compare_by_their_numbers(parts: list[int]) -> None:
    text = ".".join(map(str, parts))
    assert numbers(text) == numbers(f"{text}+cu121") == tuple(parts)
    assert numbers(f"{text}.post1")[: len(parts)] == tuple(parts)


def after_steps(*sizes_mib: float) -> int | None:
    from rerail.preflight.memory.growth import growth_bytes_per_step

    marks = [{"mark": "step done", "RssAnon": int(size * MIB)} for size in sizes_mib]
    told = Report(7, "steps", "", len(marks), marks, {}, [])
    return growth_bytes_per_step(Rehearsal(("python",), "steps", 1.0, [told]))


def test_what_a_program_keeps_of_each_step_shows_in_the_dry_run() -> None:
    assert after_steps(*(100 + 2 * step for step in range(15))) == 2 * MIB
    # A step as seen: the buffer of one batch comes and goes.
    kept = [100 + 2 * step + 3 * (step % 2) for step in range(15)]
    assert after_steps(*kept, 134) == pytest.approx(2 * MIB, rel=0.2)


@pytest.mark.parametrize(
    "sizes",
    [
        [100, 150, *[160] * 13],
        [100, 150, 160, 170, 176, 180, 182, 183, *[183.5] * 7],  # an allocator settles
        [100, 150, *[160, 172] * 6, 160],
        [100 + 2 * step for step in range(6)],  # too few
    ],
)
def test_an_allocator_that_settles_is_no_leak(sizes: list[float]) -> None:
    assert after_steps(*sizes) is None
