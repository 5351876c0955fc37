"""A change of rerail's own is declared once; agent, list and docs agree with the declaration."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rerail
from rerail.changes.known import OWN_CHANGES
from rerail.cli import main

STUB = Path(rerail.__file__).parent / "agent" / "stub"
ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

# The agent's modules expect to stand on the path of a process of their own.
ASK_THE_AGENT = """
import inspect, json, re, sys
sys.path.insert(0, sys.argv[1])
import rerail_changes
told = {}
for change, functions in rerail_changes.HANDLERS.items():
    told[change] = [
        (function.__name__, re.findall(r'(?<!\\.)note\\("([^"]+)"', inspect.getsource(function)))
        for function in functions.values()
    ]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def handlers() -> dict[str, list[tuple[str, list[str]]]]:
    done = subprocess.run(
        [sys.executable, "-c", ASK_THE_AGENT, str(STUB)],
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    found: dict[str, list[tuple[str, list[str]]]] = json.loads(done.stdout)
    return found


def test_the_agent_makes_what_is_declared_and_nothing_else(
    handlers: dict[str, list[tuple[str, list[str]]]],
) -> None:
    made = {change: sorted(name for name, _ in each) for change, each in handlers.items()}
    declared = {own.name: sorted(own.inside) for own in OWN_CHANGES.values() if own.inside}
    assert made == declared


def test_a_handler_notes_the_change_that_it_makes(
    handlers: dict[str, list[tuple[str, list[str]]]],
) -> None:
    """A trial without that note counts as one where the change had no effect."""
    noted = set(re.findall(r'(?<!\.)note\("([^"]+)"', (STUB / "rerail_changes.py").read_text()))
    assert noted == set(handlers)
    for change, functions in handlers.items():
        for name, notes in functions:
            assert set(notes) <= {change}, f"{name} notes another change"


def test_every_change_is_made_somehow() -> None:
    for own in OWN_CHANGES.values():
        assert own.inside or own.variables or own.preloads, own.name
        assert own.made_by and own.family and own.tells


def test_the_list_shows_every_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERAIL_HOME", str(tmp_path))
    assert main(["isolate", "--list", "--", sys.executable, "train.py"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split()[0] for line in shown.splitlines() if line.split()]
    for own in OWN_CHANGES.values():
        assert lines.count(own.text) == 1


def test_the_tables_in_the_docs_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "write-tables"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (DOCS / "isolate.md").read_text(encoding="utf-8")
    assert [own.text for own in OWN_CHANGES.values() if f"`{own.text}`" not in page] == []
