"""A memory cgroup with a small limit, for tests in which memory runs out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_memory_group(name: str, limit_bytes: int) -> Iterator[Path]:
    """Its folder, version 1 or 2, without swap; the test is skipped where none can be made."""
    for base, limit, swap in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.swappiness"),
        (Path("/sys/fs/cgroup"), "memory.max", "memory.swap.max"),
    ):
        group = base / f"rerail-test-{os.getpid()}-{name}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(limit_bytes))
            if (group / swap).exists():
                (group / swap).write_text("0")
        except OSError:
            group.rmdir()
            continue
        yield group
        subprocess.run(["rmdir", str(group)], check=False)
        return
    pytest.skip("no memory cgroup can be made here")
