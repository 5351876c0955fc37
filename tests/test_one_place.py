"""One rule for each question: a second place that answers one of these questions fails here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import rerail

PACKAGE = Path(rerail.__file__).parent


def places_of(pattern: str) -> dict[str, int]:
    """The modules of the package whose code matches, each with the number of matches."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        # Without comments, and with each statement on one line.
        code = ast.unparse(ast.parse(path.read_text(encoding="utf-8")))
        if count := len(re.findall(pattern, code)):
            found[path.relative_to(PACKAGE).as_posix()] = count
    return found


def test_one_place_says_which_process_is_the_training() -> None:
    """A comparison of boxes by what they have done is another answer to this question."""
    by_work = r"lambda (\w+): [^\n]*\b\1\.(?:optimizer_steps|backward_calls)"
    assert places_of(by_work) == {
        "recorder/run/gate_watch.py": 1,  # whose loss a gate judges: rank 0's, also when it is late
    }
    assert places_of(r"def training_box") == {
        "evidence/run/material.py": 1,  # asks the other for the boxes of a recorded run
        "store/training_process.py": 1,
    }


def test_one_place_says_whether_another_attempt_is_worthwhile() -> None:
    """Whoever asks a cause's file for its `retry`, or how sure a cause is, answers it again."""
    assert places_of(r"\.may_go_well_unchanged\(") == {"remedies/restart/judgement.py": 2}
    thresholds = places_of(r"(?m)^_?(?:SURE|LIKELY)\b.* = 0\.\d")
    assert [name for name in thresholds if name.startswith(("remedies/", "study/"))] == [
        "remedies/restart/death.py"
    ]


def test_one_place_says_what_came_of_a_trial() -> None:
    judge = "investigation/session/outcome.py"
    assert places_of(r"(?<!def )\bdied_before\(") == {judge: 1}
    # When it hung is another question: that of a run that the recorder ended for its silence.
    assert places_of(r"(?<!def )\bidle_seconds\(") == {
        "investigation/session/exposure.py": 1,
        judge: 1,
    }
    assert places_of(r"_BUSY_SHARE = 0|_IDLE_SECONDS = |_STUCK_SHARE = ") == {judge: 3}
    assert set(places_of(r"(?<!def )\bjudge_run\(")) == {
        "investigation/session/judging.py",
        "remedies/verification/trying.py",
    }


def test_one_place_looks_at_a_trial_under_way() -> None:
    """A study watches cells and not trials; a rehearsal has no failure to look for."""
    polling = places_of(r"\brunning\.is_over\(")
    assert {name for name in polling if name.startswith(("investigation/", "remedies/"))} == {
        "investigation/session/trial_look.py"
    }
    assert set(places_of(r"(?<!def )\blook_at\(")) >= {
        "investigation/session/session.py",
        "investigation/reproducer/reduction.py",
        "remedies/verification/trying.py",
    }


def test_one_place_says_who_failed_first() -> None:
    """The rules are in evidence/first; who else makes a verdict decides it again."""
    rules = "evidence/first/rules.py"
    assert places_of(r"class Scene\b") == {rules: 1}
    adapters = {"boxes", "dumps", "lines", "logs", "ray"}
    of_evidence = {f"evidence/first/{name}.py" for name in adapters}
    deciders = {*of_evidence, "jobs/who_first.py"}
    assert set(places_of(r"\bScene\[\w+\]\)|(?<!class )\bScene\(")) == deciders
    verdicts = places_of(r"(?<!class )\bVerdict\(")
    assert {n for n in verdicts if n.startswith(("evidence/", "jobs/"))} <= {rules, *deciders}
    assert set(places_of(r"Observation\(\s*'failed-first'")) == {
        "evidence/first/model.py",
        "evidence/text/observing.py",  # tells what lines.py has decided
    }
    older = r"'(?:never-entered|left-early|host-lost|elsewhere)'"
    assert places_of(older) == {"evidence/first/words.py": 4}
