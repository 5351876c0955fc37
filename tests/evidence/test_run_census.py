"""A holder is named only where what is new in it explains the growth; else what grew, alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from run_builders import MIB, box, process, recorded, row, steps

from rerail.evidence.run.census import read_copied_growth, read_leaks
from rerail.evidence.run.memory import read_memory_growth
from rerail.records import Census, Container, MemoryLimit, ProcessVitals, TensorGroup
from rerail.store.censuses import read_censuses


def census(step: int, used_mib: float, **changes: Any) -> Census:
    parts: dict[str, Any] = {
        "pid": 100,
        "start_ticks": 7,
        "t_seconds": step * 0.5,
        "step": step,
        "since_step": 20,
        "used_bytes": int(used_mib * MIB),
        "resident_bytes": int(used_mib * MIB),
        "heap_bytes": int(used_mib * MIB),
        "seen_share": 1.0,
        "tracked": 1000,
        "tensor_bytes": 0,
        "graph_tensor_bytes": 0,
        "walk_is_complete": True,
    }
    return Census(**{**parts, **changes})


def container(
    name: str | None = "losses", new: int = 100, each: int = MIB, **more: Any
) -> Container:
    return Container(
        kind="list",
        length=new + 20,
        before=20,
        bytes_each=each,
        holds="arrays (256, 512) float64",
        looked_at=24,
        of="local",
        name=name,
        file="/data/job/train.py",
        function="train",
        line=31,
        **more,
    )


def leaking(*censuses: Census) -> Any:
    """A run whose main process grew by 1 MiB a step, to 320 MiB, and the censuses it took."""
    rows = [
        row(t / 2, p100=ProcessVitals(rss_anon_bytes=(200 + t) * MIB, threads=1))
        for t in range(121)
    ]
    return recorded(
        vitals=rows,
        boxes=[box(optimizer_steps=121, history=steps(121))],
        censuses=[list(censuses)],
    )


def leak_of(*censuses: Census) -> dict[str, Any]:
    (found,) = read_leaks(leaking(*censuses))
    return found.data


def test_a_container_that_explains_the_growth_is_the_holder() -> None:
    data = leak_of(census(20, 220), census(120, 320, grown=[container()]))
    assert data["what"] == "100 arrays (256, 512) float64"
    assert data["since_step"] == 20
    holder = data["holder"]
    assert (holder["name"], holder["kind"], holder["function"]) == ("losses", "list", "train")
    assert (holder["file"], holder["line"]) == ("train.py", 31)


def test_a_container_that_explains_too_little_or_too_much_is_not() -> None:
    for each in (24, MIB // 4, 4 * MIB):
        data = leak_of(census(20, 220), census(120, 320, grown=[container(each=each)]))
        assert "holder" not in data, each


def test_of_two_that_explain_it_neither_is_named() -> None:
    both = [container("losses"), container("copies")]
    data = leak_of(census(20, 220), census(120, 320, grown=both))
    assert "holder" not in data
    assert data["what"] == "100 arrays (256, 512) float64"


def test_a_container_without_a_name_makes_a_named_rival_uncertain() -> None:
    last = census(120, 320, grown=[container()], unnamed=[container(None)])
    assert "holder" not in leak_of(census(20, 220), last)


def tensors(count: int) -> dict[str, Any]:
    size = count * MIB
    group = TensorGroup([512, 512], "float32", True, count, size)
    return {"tensors": [group], "tensor_bytes": size, "graph_tensor_bytes": size}


def test_losses_with_graphs_hold_what_the_graphs_hold() -> None:
    losses = container(each=68, graphs=24)
    first = census(20, 220, **tensors(10))
    data = leak_of(first, census(120, 320, grown=[losses], **tensors(70)))
    assert data["what"] == "60 tensors (512, 512) float32 with a graph"
    assert data["holder"]["name"] == "losses"


def test_losses_whose_graphs_were_freed_hold_nothing() -> None:
    losses = container(each=68, graphs=24)
    first = census(20, 220, **tensors(10))
    assert "holder" not in leak_of(first, census(120, 320, grown=[losses], **tensors(10)))


def test_memory_is_native_only_if_everything_else_was_looked_at() -> None:
    first = census(20, 220)
    assert leak_of(first, census(120, 320))["native_bytes"] == 100 * MIB
    for unsure in (
        {"seen_share": 0.5},
        {"walk_is_complete": False},
        {"tracked": 1100},
        {"tracked": None},
        {"heap_bytes": 220 * MIB},
        {"tensor_bytes": 50 * MIB},
    ):
        assert "native_bytes" not in leak_of(first, census(120, 320, **unsure)), unsure


def test_where_the_vitals_show_no_leak_nothing_is_said() -> None:
    run = recorded(censuses=[[census(20, 220), census(120, 320, grown=[container()])]])
    assert read_leaks(run) == []


def worker(step: int, used_mib: int, resident_mib: int = 400, **more: Any) -> Census:
    parts = {"pid": 101, "is_worker": True, "resident_bytes": resident_mib * MIB}
    return census(step, used_mib, **{**parts, "floor_bytes": 10 * MIB, **more})


def test_pages_that_a_worker_copies_are_growth_that_no_resident_size_shows() -> None:
    rows = container("self.rows", new=10**6, each=700)
    run = recorded(
        processes=[process(), process(101, "loader-worker")],
        censuses=[[worker(20, 40), worker(120, 110, read=[rows])]],
    )
    (growth,) = read_copied_growth(run)
    assert growth.data["rise_bytes"] == 100 * MIB
    assert growth.data["role"] == "loader-worker"
    (leak,) = read_leaks(run)
    assert leak.data["is_copied"] and leak.data["holder"]["name"] == "self.rows"


def test_a_worker_that_takes_memory_of_its_own_copies_nothing() -> None:
    run = recorded(censuses=[[worker(20, 40), worker(120, 110, resident_mib=470)]])
    assert read_copied_growth(run) == []


def test_growth_that_filled_the_limit_says_so() -> None:
    run = leaking()
    full = MemoryLimit("cgroup-v2:/job", 330 * MIB, 330 * MIB, oom_kills=1)
    after = type(run.after)(memory_limits=[full])
    (growth,) = read_memory_growth(type(run)(**{**vars(run), "after": after}))
    assert growth.data["reached_limit_bytes"] == 330 * MIB
    (growth,) = read_memory_growth(run)
    assert "reached_limit_bytes" not in growth.data


def test_a_slow_ending_does_not_look_like_a_rest() -> None:
    """Sixty steps that fill the memory, then two minutes of a traceback at the same level."""
    rows = [
        row(t / 2, p100=ProcessVitals(rss_anon_bytes=(200 + 2 * min(t, 60)) * MIB, threads=1))
        for t in range(300)
    ]
    failed = box(optimizer_steps=60, history=steps(60), exception_type="MemoryError")
    (growth,) = read_memory_growth(recorded(vitals=rows, boxes=[failed]))
    assert growth.data["shape"] == "leak"
    assert growth.data["reached_limit_bytes"]
    rested = replace(failed, exception_type=None)
    (growth,) = read_memory_growth(recorded(vitals=rows, boxes=[rested]))
    assert growth.data["shape"] != "leak"


@given(st.binary(max_size=400), st.integers(0, 3))
def test_any_file_gives_censuses_or_none(tmp_path_factory: Any, noise: bytes, good: int) -> None:
    path: Path = tmp_path_factory.mktemp("agent") / "100-7.census"
    line = b'{"schema": 1, "monotonic_ns": 5, "step": 1, "since_step": 1, "used_bytes": 9}\n'
    path.write_bytes(good * line + noise + b"\n" + line[:40])
    assert len(read_censuses(path, 0)) == good
