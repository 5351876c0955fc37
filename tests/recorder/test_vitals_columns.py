"""A vitals column is one declaration; everything else follows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rerail
from rerail.platform import procfs
from rerail.recorder.vitals.machine import MachineReader
from rerail.recorder.vitals.tree_sum import TreeSum, as_vitals
from rerail.vitals_columns import (
    MACHINE_COLUMNS,
    PROCESS_COLUMNS,
    PROCESS_NAMES,
    machine_column,
)

PACKAGE = Path(rerail.__file__).parent
TESTS = Path(__file__).parent.parent
RECORDING = TESTS / "recordings" / "schema-1" / "segfault"

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
values = st.lists(
    st.integers(0, 10**15), min_size=len(PROCESS_COLUMNS), max_size=len(PROCESS_COLUMNS)
)


@unhurried
@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), values)), max_size=30))
def test_a_gauge_sums_the_living_and_a_counter_keeps_the_ended(
    story: list[tuple[int, list[int] | None]],
) -> None:
    """Processes begin, change and end (None) in any order; each number is one place in the tree."""
    tree = TreeSum()
    living: dict[int, list[int]] = {}
    ended = [0] * len(PROCESS_COLUMNS)
    for who, now in story:
        before = living.pop(who, None)
        if now is None:
            if before is not None:
                tree.remove(before)
                ended = [a + b for a, b in zip(ended, before, strict=True)]
            continue
        if before is None:
            tree.add(now)
        else:
            tree.change(before, now)
        living[who] = now
    for place, column in enumerate(PROCESS_COLUMNS):
        expected = sum(each[place] for each in living.values())
        if column.kind == "counter":
            expected += ended[place]
        found = getattr(tree.vitals(), column.name)
        assert found == (expected / procfs.THOUSAND if column.is_fraction else expected)


def test_a_row_is_written_in_the_order_of_the_columns() -> None:
    made = as_vitals(range(len(PROCESS_COLUMNS)))
    assert tuple(vars(made)) == PROCESS_NAMES


def test_declarations_make_sense() -> None:
    names = {column.name for column in MACHINE_COLUMNS}
    assert len(names) == len(MACHINE_COLUMNS)
    for column in (*PROCESS_COLUMNS, *MACHINE_COLUMNS):
        assert column.what and column.source
        assert not (column.kind == "counter" and column.keeps_extremes), "a total only grows"
        assert column.limit is None or column.limit.column in names
    assert set(procfs.READERS) <= set(PROCESS_NAMES), "a function reads what is not declared"


def test_what_is_read_of_the_machine_is_declared(tmp_path: Path) -> None:
    reader = MachineReader(tmp_path, tmp_path)
    try:
        found = reader.read()
    finally:
        reader.close()
    assert [name for name in found if machine_column(name) is None] == []
    gpu = machine_column("gpu11_temperature")
    assert gpu is not None and gpu.keeps_extremes
    assert machine_column("gpu_temperature") is None


# Made-up columns: one from a file that no other needs, one from the first line of a file, one from
# a file that this kernel lacks, and one that needs a function of its own.
DECLARED = """
    stack_bytes: int = _gauge("", "bytes", "status", label="VmStk:", times=1024, chart="Stacks")
    read_calls: int = _counter("made up", "count", "io", label="syscr:")
    read_characters: int = _counter("made up", "count", "io", label="rchar:")
    badness: int = _gauge("made up", "count", "oom_score_adj", keeps_extremes=False)
    absent: int = _counter("made up", "count", "file_of_another_kernel")
    name_length: int = _gauge("made up", "count", "comm")
"""
READ = """
    "name_length": lambda text: len(text.strip()),
"""
WATCHES_TWO = """
import json, os, subprocess, sys
from pathlib import Path

import rerail
from rerail.evidence import read_material
from rerail.platform.proc_files import read_start_ticks
from rerail.recorder.vitals.sampler import Sampler, VitalsLog
from rerail.report.charts import timeline
from rerail.store import RunFolder, VitalsFiles

folder = Path(sys.argv[1])
waits = [sys.executable, "-c", "print(flush=True); input()"]
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
children = [subprocess.Popen(waits, **pipes) for _ in range(2)]
for child in children:
    child.stdout.readline()
# Up is the way that needs no rights.
Path(f"/proc/{children[0].pid}/oom_score_adj").write_text("1000")
identities = [(child.pid, read_start_ticks(child.pid)) for child in children]
sampler, log = Sampler(folder, folder), VitalsLog(VitalsFiles(folder))
rows = []
for tick in range(25):
    if tick == 12:
        children[0].communicate(b"\\n")
        identities.pop(0)
    rows.append(sampler.sample(tick / 10, identities))
    log.add(rows[-1])
log.close()
sampler.close()
children[1].communicate(b"\\n")
names = ("stack_bytes", "read_calls", "read_characters", "badness", "absent", "name_length")
run = read_material(RunFolder(folder))
def told(row):
    return {
        "tree": {name: getattr(row.tree, name) for name in names},
        "processes": {
            key.partition("-")[0]: {name: getattr(vitals, name) for name in names}
            for key, vitals in row.processes.items()
        },
    }
chart = next(chart for chart in timeline(run) if chart.name == "stack_bytes")
print(json.dumps({
    "package": rerail.__file__,
    "sampled": [told(rows[11]), told(rows[-1])],
    "read": told(run.vitals[-1]),
    "extremes": [
        name for row in RunFolder(folder).vitals() for name in (*row.minimum, *row.maximum)
    ],
    "ended": str(children[0].pid),
    "chart": [chart.title, chart.unit],
}))
"""


def insert_after(path: Path, mark: str, text: str) -> None:
    before, found, after = path.read_text(encoding="utf-8").partition(mark)
    assert found, f"{path.name} has no {mark!r} any more"
    end = after.index("\n")
    path.write_text(before + mark + after[:end] + text.rstrip() + after[end:], encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_new_column_is_one_declaration(tmp_path: Path) -> None:
    copy = tmp_path / "rerail"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    insert_after(copy / "vitals_columns.py", "    # A new column goes here", DECLARED)
    insert_after(copy / "platform" / "procfs.py", "READERS: dict[str, Reader]", READ)
    shutil.copytree(RECORDING, tmp_path / "run")
    for old in (tmp_path / "run").glob("vitals*"):
        old.unlink()
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", start + WATCHES_TWO, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["package"].startswith(str(copy)), "the copy was not what ran"
    both, one = told["sampled"]
    assert len(both["processes"]) == 2 and len(one["processes"]) == 1
    for name in ("stack_bytes", "read_calls", "badness"):
        assert both["tree"][name] == sum(each[name] for each in both["processes"].values())
    ended = both["processes"][told["ended"]]
    (left,) = one["processes"].values()
    assert (ended["badness"], ended["absent"]) == (1000, 0)
    assert ended["stack_bytes"] > 0 and ended["read_calls"] > 0
    assert ended["read_characters"] > 0 and ended["name_length"] > 0
    assert one["tree"]["stack_bytes"] == left["stack_bytes"]
    assert one["tree"]["badness"] == left["badness"]
    assert one["tree"]["read_calls"] == left["read_calls"] + ended["read_calls"]
    assert told["read"] == one
    assert "tree.stack_bytes" in told["extremes"]
    assert not {"tree.read_calls", "tree.badness"} & set(told["extremes"])
    assert told["chart"] == ["Stacks", "bytes"]
