"""`%rerail on` where the process that should record says nothing, or ends."""

from __future__ import annotations

import pytest

from rerail.integrations import notebook


@pytest.mark.parametrize(
    ("words", "seconds", "said"),
    [
        (["sleep", "600"], 0.5, "the process that records said nothing in 0.5 s"),
        (["false"], 60.0, "the process that records ended"),
        (["sh", "-c", "echo Welcome; exec sleep 600"], 0.5, "said nothing in 0.5 s"),
    ],
)
def test_the_cell_runs_all_the_same(
    words: list[str],
    seconds: float,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = notebook._KernelRecord()
    monkeypatch.setattr(notebook, "_kernel", record)
    monkeypatch.setattr(notebook, "own_process", lambda module: words)
    monkeypatch.setattr(notebook, "_READY_SECONDS", seconds)
    monkeypatch.delenv("RERAIL_AGENT", raising=False)
    ran: list[str] = []
    notebook.act("", "x = 1", ran.append)
    assert ran == ["x = 1"] and said in capsys.readouterr().out
    assert not record.is_on and record._process is None  # the next `%rerail on` begins anew
