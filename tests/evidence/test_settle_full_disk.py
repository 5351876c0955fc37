"""A file system that was measured as full, and a limit that is only concluded from the words."""

from __future__ import annotations

import pytest
from run_builders import recorded

from rerail.evidence.run import claims, facts
from rerail.evidence.text.observing import TextEvidence


@pytest.mark.parametrize("full", [{}, {"full_mount": "/scratch"}])
def test_a_full_file_system_goes_before_a_limit(
    full: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = {"file_size_limit_bytes": 4096}
    monkeypatch.setattr(facts, "hit_limits", lambda run, observations: dict(limit))
    monkeypatch.setattr(claims, "full_mount_facts", lambda run, said, in_hand: full)
    found = claims.facts_of_run(recorded(), [], [], TextEvidence())
    assert found.get("file_size_limit_bytes") == (None if full else 4096)
    assert found.get("full_mount") == full.get("full_mount")
