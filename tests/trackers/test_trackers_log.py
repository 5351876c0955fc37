"""W&B's transaction log: what is whole in a torn one is kept, and what is appended is read."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

import rerail

STUB = Path(rerail.__file__).parent / "trackers" / "stub" / "rerail_close_runs.py"
HEAD = b":W&B\xe1\xbe\x00"


def stub() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rerail_close_runs", STUB)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOG = stub().TransactionLog
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
