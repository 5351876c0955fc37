"""Limits, variables and disks, from surroundings in hand."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.preflight import quick
from rerail.preflight.audit import fixes
from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.limits import find_limits, memory_limit, memory_room
from rerail.preflight.audit.macos import find_macos
from rerail.preflight.audit.storage import file_system_of
from rerail.preflight.audit.target import Target
from rerail.preflight.audit.variables import find_variables
from rerail.recorder import surroundings

GIB = 1 << 30


def around(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "limits": {
            "RLIMIT_NOFILE": {"soft": 65536, "hard": 65536},
            "RLIMIT_NPROC": {"soft": 50000, "hard": 50000},
            "RLIMIT_STACK": {"soft": 8 << 20, "hard": None},
            "RLIMIT_AS": {"soft": None, "hard": None},
            "RLIMIT_CORE": {"soft": 0, "hard": None},
        },
        "memory": {
            "total_bytes": 32 * GIB,
            "available_bytes": 30 * GIB,
            "shm_total_bytes": 16 * GIB,
            "shm_free_bytes": 16 * GIB,
            "overcommit_memory": 0,
        },
        "cgroups": {"memory": [], "tasks": []},
        "cpu": {"logical_cores": 8, "usable_cores": 8, "flags": []},
        "gpu": None,
    }
    for name, value in changes.items():
        group, _, key = name.partition("__")
        found[group] = {**found[group], key: value}
    return found


def bad(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings if finding.level != "fine"}


def test_ample_limits_are_all_fine() -> None:
    found = find_limits(around(), workers=16)
    assert bad(found) == set() and len(found) >= 5


@pytest.mark.parametrize(
    ("change", "workers", "expected"),
    [
        ({"limits__RLIMIT_NOFILE": {"soft": 256, "hard": 4096}}, None, "fd-exhausted"),
        ({"limits__RLIMIT_NOFILE": {"soft": 1024, "hard": 4096}}, 32, "fd-exhausted"),
        ({"limits__RLIMIT_NPROC": {"soft": 60, "hard": 60}}, None, "thread-limit"),
        (
            {"cgroups__tasks": [{"source": "cgroup-v1:/x", "limit": 64, "current": 8}]},
            None,
            "thread-limit",
        ),
        ({"limits__RLIMIT_STACK": {"soft": 65536, "hard": None}}, None, "stack-overflow"),
        ({"limits__RLIMIT_AS": {"soft": 4 * GIB, "hard": None}}, None, "host-alloc-failed"),
        ({"memory__shm_total_bytes": 64 << 20}, 4, "shm-exhausted"),
        ({"memory__overcommit_memory": 2}, None, "host-alloc-failed"),
        (
            {
                "cgroups__memory": [
                    {"source": "cgroup-v2:/x", "limit_bytes": 600 << 20, "usage_bytes": 200 << 20}
                ]
            },
            None,
            "host-oom",
        ),
    ],
)
def test_each_tight_limit_is_risky(
    change: dict[str, Any], workers: int | None, expected: str
) -> None:
    assert bad(find_limits(around(**change), workers)) == {expected}


def test_a_small_shm_does_not_matter_without_workers() -> None:
    assert bad(find_limits(around(memory__shm_total_bytes=64 << 20), workers=0)) == set()


@given(
    limits=st.lists(st.tuples(st.integers(1, 1 << 50), st.integers(0, 1 << 50)), max_size=4),
    total=st.integers(1 << 20, 1 << 50),
)
def test_the_tightest_memory_limit_applies(limits: list[tuple[int, int]], total: int) -> None:
    groups = [
        {"source": f"cgroup-v2:/{i}", "limit_bytes": limit, "usage_bytes": used}
        for i, (limit, used) in enumerate(limits)
    ]
    where = around(cgroups__memory=groups, memory__total_bytes=total, memory__available_bytes=total)
    limit, room = memory_limit(where), memory_room(where)
    assert limit is not None and limit[0] == min([total, *(one for one, _ in limits)])
    assert room is not None and 0 <= room[0] <= total


def test_variables_that_hide_faults() -> None:
    assert bad(find_variables({"KMP_DUPLICATE_LIB_OK": "true"})) == {"openmp-duplicate-runtime"}
    assert bad(find_variables({"KMP_DUPLICATE_LIB_OK": "FALSE"})) == set()
    assert bad(find_variables({"CUDA_VISIBLE_DEVICES": ""}, has_gpu=True)) == {"cuda-unavailable"}
    assert bad(find_variables({"CUDA_VISIBLE_DEVICES": ""})) == set()
    path = {"PYTHONPATH": "/opt/x/lib/python3.8/site-packages"}
    assert bad(find_variables(path, python=(3, 11))) == {"dependency-missing"}
    assert bad(find_variables(path, python=(3, 8))) == set()


def test_quick_tells_bad_news_only_and_reads_real_surroundings() -> None:
    real = surroundings.collect(["true"], Path("/"), {"KMP_DUPLICATE_LIB_OK": "1"}, {})
    found = quick(real)
    assert any(f.where == ("KMP_DUPLICATE_LIB_OK",) for f in found)
    assert all(f.level != "fine" for f in found)
    assert quick({}) == []


def test_the_snippet_of_safe_changes_is_shell_and_overwrites_nothing(tmp_path: Path) -> None:
    findings = find_limits(around(limits__RLIMIT_NOFILE={"soft": 256, "hard": 4096}))
    findings += find_variables({"KMP_DUPLICATE_LIB_OK": "1"})
    text = fixes.snippet(findings)
    first, second = fixes.write(text, tmp_path), fixes.write(text, tmp_path)
    assert first != second and first.read_text() == text
    done = subprocess.run(["sh", "-n", str(first)], capture_output=True, timeout=10)
    assert done.returncode == 0, done.stderr
    assert "unset KMP_DUPLICATE_LIB_OK" in text and "ulimit -n" in text
    assert fixes.snippet([]) == ""


def test_the_file_system_is_that_of_the_longest_mount_point() -> None:
    mounts = [("/", "ext4"), ("/data", "nfs4"), ("/data/local", "xfs")]
    assert file_system_of("/data/x.npy", mounts) == "nfs4"
    assert file_system_of("/data/local/x.npy", mounts) == "xfs"
    assert file_system_of("/datax", mounts) == "ext4"


def test_fork_on_macos_is_risky_there_and_nowhere_else(tmp_path: Path) -> None:
    target = Target(("python",), tmp_path, {}, {})
    target.program.start_methods["fork"] = "train.py:3"
    assert bad(find_macos(target, "darwin")) == {"macos-fork-unsafe"}
    assert find_macos(target, "linux") == []
