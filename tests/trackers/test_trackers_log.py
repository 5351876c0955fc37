"""W&B's transaction log: what is whole in a torn one is kept, and what is appended is read.

And what the agent writes down of a tracker's run: no login, and nothing of another process.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

import rerail
from rerail.agent import STUB as AGENT_STUB
from rerail.store.tracked_runs import read_tracked_runs

STUB = Path(rerail.__file__).parent / "trackers" / "stub"
HEAD = b":W&B\xe1\xbe\x00"


def stub(name: str) -> ModuleType:
    sys.path[:0] = [str(STUB), str(AGENT_STUB)]
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[:2]


LOG = stub("rerail_wandb_log").TransactionLog
records_of_any_size = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.integers(32_700, 33_000).map(lambda size: b"y" * size),
        st.just(b"z" * 70_000),
    ),
    max_size=5,
)


@given(records_of_any_size, records_of_any_size, st.integers(0, 200_000))
def test_a_torn_log_gets_a_new_end(before: list[bytes], after: list[bytes], cut_at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.wandb"
        path.write_bytes(HEAD)
        LOG(path).append(before)
        octets = path.read_bytes()
        whole = LOG(path)
        assert (whole.count, whole.last) == (len(before), before[-1] if before else b"")
        path.write_bytes(octets[: max(len(HEAD), cut_at)])
        torn = LOG(path)
        kept = torn.count
        assert kept <= len(before) and (kept < len(before) or max(len(HEAD), cut_at) >= len(octets))
        torn.append(after)
        mended = LOG(path)
        assert mended.count == kept + len(after)
        assert mended.end == path.stat().st_size
        last = (before[:kept] + after)[-1:]
        assert mended.last == (last[0] if last else b"")


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_harm(octets: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.wandb"
        path.write_bytes(HEAD + octets)
        log = LOG(path)
        assert len(HEAD) <= log.end <= path.stat().st_size


def test_no_login_is_written_down() -> None:
    without_login = stub("rerail_login").without_login
    for uri, shown in (
        ("https://me:s3cret@host:5000/a@b", "https://host:5000/a@b"),
        ("https://host/mlflow?token=s3cret", "https://host/mlflow"),
        ("postgresql://me:s3/cret@host/db", "postgresql://host/db"),
        ("postgresql://me:s3?cret@host/db?sslmode=require", "postgresql://host/db"),
        ("mysql+pymysql://host/db?user=me&password=s3cret", "mysql+pymysql://host/db"),
        ("sqlite:////home/a@b/mlflow.db", "sqlite:////home/a@b/mlflow.db"),
        ("file:///home/a@b/mlruns", "file:///home/a@b/mlruns"),
        ("databricks://profile", "databricks://profile"),
        ("/home/a@b/mlruns", "/home/a@b/mlruns"),
        ("databricks", "databricks"),
    ):
        assert without_login(uri) == shown


def test_a_forked_child_does_not_write_down_the_runs_of_its_parent(tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(AGENT_STUB)!r})
import rerail_box as box, rerail_layout as layout
box.use(None, memoryview(bytearray(layout.SIZE)))
import rerail_imports
rerail_imports._folder = {str(AGENT_STUB)!r}
import rerail_hooks_trackers as hooks
hooks.opened("mlflow", "of the parent", "mlflow")
child = os.fork()
if child == 0:
    hooks.opened("mlflow", "of the child", "mlflow")
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RERAIL_AGENT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    parent, child = done.stdout.split()
    assert runs_in(tmp_path / f"{parent}-0.trackers") == ["of the parent"]
    assert runs_in(tmp_path / f"{child}-0.trackers") == ["of the child"]


def runs_in(path: Path) -> list[str]:
    return [run.run for run in read_tracked_runs(path, 0)]
