"""One rule for each question: a second place that answers one of these questions fails here."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import rerail

PACKAGE = Path(rerail.__file__).parent


@functools.cache
def code_of_modules() -> dict[str, str]:
    """The code of each module without comments, and with each statement on one line."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.unparse(ast.parse(path.read_text("utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def places_of(pattern: str) -> dict[str, int]:
    """The modules of the package whose code matches, each with the number of matches."""
    counts = {name: len(re.findall(pattern, code)) for name, code in code_of_modules().items()}
    return {name: count for name, count in counts.items() if count}


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
    judge = "experiments/trials/outcome.py"
    assert places_of(r"(?<!def )\bdied_before\(") == {judge: 1}
    # When it hung is another question: that of a run that the recorder ended for its silence.
    assert places_of(r"(?<!def )\bidle_seconds\(") == {
        "experiments/trials/exposure.py": 1,
        judge: 1,
    }
    assert places_of(r"_BUSY_SHARE = 0|_IDLE_SECONDS = |_STUCK_SHARE = ") == {judge: 3}
    assert places_of(r"(?<!def )\bjudge_run\(") == {"experiments/trials/judge.py": 1}


def test_one_place_starts_polls_and_stops_trials() -> None:
    """A study watches cells and not trials; a rehearsal has no failure to look for."""
    driver = "experiments/trials/trial_driver.py"
    assert places_of(r"\bscheduler\.start\(") == {driver: 1, "study/run.py": 1}
    assert set(places_of(r"(?<!def )\bLocalTask\(")) == {
        "scheduling/ray_recording.py",
        "preflight/memory/rehearsal.py",
        "scheduling/local.py",
    }

    def of_experiments(pattern: str) -> dict[str, int]:
        parts = ("experiments/", "remedies/")
        return {name: n for name, n in places_of(pattern).items() if name.startswith(parts)}

    assert of_experiments(r"\brunning\.is_over\(") == {driver: 1}
    assert of_experiments(r"\brunning\.stop\(") == {driver: 1}
    assert set(of_experiments(r"\btime\.sleep\(")) <= {driver, "remedies/restart/restart.py"}


# Modules of evidence that have patterns of their own: how many at most, and what they are of. What
# a library says goes into catalogue/wordings, where each pattern has lines that it must match.
PATTERNS_OF_EVIDENCE = {
    "first/before.py": (4, "what Python says of something that is missing or empty"),
    "first/lines.py": (3, "names of exceptions, and torchrun's table"),
    "first/logs.py": (1, "digits"),
    "run/chains.py": (3, "the quotes around a forwarded traceback, and words of failure"),
    "run/comparing.py": (1, "what a program says of a child that ended"),
    "run/crashes.py": (5, "names of libraries and functions in a stack"),
    "run/disks.py": (2, "words of a full disk, and the path behind them"),
    "run/exceptions.py": (4, "a pid, a worker's number, a frame and a cell in a message"),
    "run/exit_calls.py": (1, "a call in the source"),
    "run/exits.py": (1, "what a program says of a child that ended"),
    "run/hit_limits.py": (2, "the system's words for two error numbers"),
    "run/libraries.py": (2, "names of libraries"),
    "run/log_files.py": (1, "names of files"),
    "run/log_owner.py": (2, "words of a command line, and a pid"),
    "run/memory.py": (1, "what says that memory was refused"),
    "run/named_files.py": (2, "what says that a file is missing, and a path in a message"),
    "run/oom.py": (4, "fields of a line of the kernel"),
    "run/progress.py": (1, "how we name a process"),
    "run/rank_stories.py": (3, "what a rank says that lost another, and a place"),
    "run/ray_driver.py": (3, "a pid, and what Ray says of a worker"),
    "run/ray_worker.py": (1, "an exit code"),
    "run/stalls.py": (3, "names of libraries, a timeout, and how we name a process"),
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
    "text/rank_words.py": (2, "a prefix, and a frame"),
    "text/signatures.py": (2, "compiles the catalogue"),
    "text/teardown.py": (2, "what C++ says when it is torn down"),
    "text/tracebacks.py": (10, "the parts of a traceback"),
    "text/wrapped.py": (1, "the columns of rich"),
}


def test_wordings_stand_in_the_catalogue() -> None:
    found = {
        name.removeprefix("evidence/"): count
        for name, count in places_of(r"\blinear\(").items()
        if name.startswith("evidence/")
    }
    allowed = {name: count for name, (count, _) in PATTERNS_OF_EVIDENCE.items()}
    assert set(allowed) - set(found) == set(), "these have no pattern any more"
    more = [name for name, count in found.items() if count > allowed.get(name, 0)]
    assert more == [], "a new wording goes into src/rerail/catalogue/wordings/NAME.toml"


def test_one_place_reads_the_diagnosis_document() -> None:
    """Whoever takes `causes` or `outcome` out of a dictionary reads it again; all others take the
    typed `Diagnosis`. The list of runs keeps four columns of it, in a package below diagnosis.
    """
    untyped = r"""(?:\[|get\(|_of\(diagnosis, )['"](?:causes|outcome|headline)['"]"""
    assert set(places_of(untyped)) == {
        "catalogue/message_fixes.py",  # the file of a fix
        "catalogue/schema.py",  # the file of a cause
        "cli/runs.py",  # a row of the list of runs
        "experiments/isolation/answer.py",  # trials
        "experiments/isolation/summary.py",  # trials
        "experiments/trials/answers.py",  # trials, and the causes of their runs
        "experiments/verification/answer.py",  # trials
        "jobs/records.py",  # the goodbye of a node
        "notify/message.py",  # what the notifier asked for
        "report/experiments.py",  # trials
        "report/run_list.py",  # trials
        "store/summaries.py",
    }
    assert set(places_of(r"(?<!def )\bread_document\(")) == {"diagnosis/explain.py"}
    # Nothing is read of what was just written.
    assert places_of(r"loads\((?:\w+\.)*(?:dumps|explain_\w+)\(") == {}


def test_one_place_makes_records_of_json() -> None:
    """Bounds stand in annotations (`bounded.py`); a validator by hand has bounds of its own."""
    assert set(places_of(r"\bWithin\(")) == {"bounded.py"}
    # The agent runs in the user's Python, without rerail.
    assert set(places_of(r"def _?is_(?:count|number|texts?|time|pid|whole|share)\(value")) <= {
        "agent/stub/rerail_agent.py"
    }
    assert places_of(r"def (?:tidy|has_plausible_\w+)\(\w+: (?:Any|dict)") == {}
    # A user's study file is refused with its line, a value of the command line with its option;
    # the catalogue is built before the store; the others put records together and read none.
    assert set(places_of(r"not isinstance\([^\n]*?, bool\)")) == {
        "catalogue/schema.py",
        "checkpoints/parts.py",
        "cli/_settings.py",
        "report/verdict.py",
        "store/codec.py",
        "store/jsonlines.py",
        "store/process_records.py",
        "study/fields.py",
        "study/file.py",
        "study/state.py",
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
