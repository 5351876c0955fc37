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


# Modules of evidence that have patterns of their own: how many at most, and what they are of. What
# a library says goes into catalogue/wordings, where each pattern has lines that it must match.
PATTERNS_OF_EVIDENCE = {
    "text/collectives.py": (1, "fields of a work item of NCCL"),
    "text/exits.py": (1, "anchors a wording"),
    "text/flight_dumps.py": (4, "names of files"),
    "text/kernel_lines.py": (5, "fields of a line of the kernel"),
    "text/last_words.py": (6, "what marks an error, in any program"),
    "text/lines.py": (3, "prefixes and time stamps"),
    "text/logs.py": (1, "names of files"),
    "text/memory.py": (3, "a number behind a label"),
    "text/native_stacks.py": (8, "frames of each tool"),
    "text/rank_names.py": (7, "names of files"),
    "text/rank_streams.py": (7, "prefixes of launchers"),
    "text/rank_verdict.py": (1, "digits"),
    "text/rank_words.py": (2, "a prefix, and a frame"),
    "text/ranks.py": (3, "types of exceptions, and torchrun's table"),
    "text/signatures.py": (2, "compiles the catalogue"),
    "text/teardown.py": (2, "what C++ says when it is torn down"),
    "text/tracebacks.py": (10, "the parts of a traceback"),
    "text/wrapped.py": (1, "the columns of rich"),
}


def test_wordings_stand_in_the_catalogue() -> None:
    found = {
        name.removeprefix("evidence/"): count
        for name, count in places_of(r"\blinear\(").items()
        if name.startswith("evidence/text/")
    }
    allowed = {name: count for name, (count, _) in PATTERNS_OF_EVIDENCE.items()}
    more = [name for name, count in found.items() if count > allowed.get(name, 0)]
    assert more == [], "a new wording goes into src/rerail/catalogue/wordings/NAME.toml"
