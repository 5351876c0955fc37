"""What the page says first: the headline while it is a guess, the proof once there is one."""

from __future__ import annotations

import json

import pytest
from report_runs import DIAGNOSIS, write_investigation, write_run

from rerail.records import Outcome
from rerail.report import build_report
from rerail.report.document import Listing, Paragraph, Table
from rerail.report.html import render
from rerail.report.markdown import render as render_markdown
from rerail.report.numbers import without_zero_rows
from rerail.report.proof import fixed_command

HEADLINE = "SIGSEGV in scan() of libfast.so in train.py:12 main() (step 7)."
INVESTIGATION = {
    "schema": 1,
    "status": "confirmed",
    "changes": ["--scan 0"],
    "confidence": 0.993,
    "command": ["python", "train.py", "--scan", "1"],
    "trials": [{"changes": ["--scan 0"], "outcome": "stopped", "exposure": 22, "unit": "steps"}],
}
VERIFICATION = {
    "schema": 1,
    "status": "proven",
    "changes": ["--scan 0"],
    "confidence": 0.95,
    "reached": 0.962,
    "command": ["python", "train.py", "--scan", "1"],
    "before": {"crashes": [9, 11], "survivals": []},
    "cost": {
        "throughput": {"before": 44.4, "after": 44.9, "steps": 8},
        "memory": {"before_bytes": 314572800, "after_bytes": 314572800},
    },
    "trials": [{"changes": ["--scan 0"], "outcome": "finished", "exposure": 60, "unit": "steps"}],
    "references": [],
    "summary": ["Proven to 95 %: with --scan 0 it stayed clean for 72 steps."],
}


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / ".rerail", diagnosis={**DIAGNOSIS, "headline": HEADLINE})


def keep(folder, **documents):
    for name, document in documents.items():
        (folder.path / f"{name}.json").write_text(json.dumps(document))


def stages(document):
    return {stage.name: (stage.state, stage.text) for stage in document.proof.stages}


def test_a_guess_shows_headline_cause_and_the_experiment_to_make(folder):
    document = build_report(folder)
    assert document.title == HEADLINE
    assert document.cause == "A native library crashed (native-segfault), 91 %"
    assert stages(document) == {
        "found": ("done", "native-segfault 91 %"),
        "confirmed": ("open", "not yet"),
        "proven": ("open", "not yet"),
    }
    assert [command for _, command in document.proof.steps] == ["rerail isolate --try '--scan 0'"]
    assert not document.proof.answer


def test_confirmed_comes_first_and_the_next_step_is_to_prove_it(folder):
    keep(folder, investigation=INVESTIGATION)
    document = build_report(folder)
    assert document.proof.answer.startswith("Confirmed by experiment: --scan 0 removes the failure")
    assert "99.3 %" in document.proof.answer
    assert dict(document.proof.steps) == {
        "the fix": "rerail run -- python train.py --scan 0",
        "prove it": "rerail verify --with '--scan 0' -- python train.py --scan 1",
    }
    for page in (render(document), render_markdown(document)):
        assert "rerail isolate" not in page
        assert page.index("Confirmed by experiment") < page.rindex("91")


def test_proven_comes_first_with_before_and_after(folder):
    keep(folder, investigation=INVESTIGATION, verification=VERIFICATION)
    document = build_report(folder)
    assert document.proof.answer == VERIFICATION["summary"][0]
    assert stages(document)["confirmed"] == ("done", "99.3 %")
    assert stages(document)["proven"] == ("done", "95 %")
    assert [words for words, _ in document.proof.steps] == ["the fix"]
    tables = {b.caption: b for s in document.sections for b in s.blocks if isinstance(b, Table)}
    assert tables["Before and after"].rows == [
        ["runs that failed", "2 of 2", "0 of 1"],
        ["throughput", "44.4 steps/s", "44.9 steps/s"],
        ["peak memory", "300 MiB", "300 MiB"],
        ["confidence reached", "", "96.2 %"],
    ]
    page = render(document)
    assert page.index(VERIFICATION["summary"][0]) < page.index("<h1")
    assert page.count(VERIFICATION["summary"][0]) == 1
    assert "rerail isolate" not in page and "rerail verify" not in page


def test_a_refuted_fix_is_no_fix(folder):
    refuted = {**VERIFICATION, "status": "refuted", "summary": ["Refuted: it failed again."]}
    keep(folder, investigation=INVESTIGATION, verification=refuted)
    document = build_report(folder)
    assert document.proof.answer == "Refuted: it failed again." and not document.proof.is_good
    assert stages(document)["proven"] == ("failed", "refuted")
    assert document.proof.fix == [] and document.proof.steps == []


def test_none_of_these_is_said_and_not_proposed_again(folder):
    keep(folder, investigation={**INVESTIGATION, "status": "none-of-these", "changes": []})
    document = build_report(folder)
    assert stages(document)["confirmed"] == ("failed", "none of the changes")
    assert document.proof.steps == []


@pytest.mark.parametrize("status", ["inconclusive", "not-reproduced", "", 3])
def test_an_undecided_investigation_leaves_the_diagnosis_first(folder, status):
    keep(folder, investigation={**INVESTIGATION, "status": status, "changes": []})
    document = build_report(folder)
    assert not document.proof.answer and document.cause.endswith("91 %")
    assert document.proof.steps


def test_a_healthy_run_has_nothing_to_prove(tmp_path):
    well = {"schema": 1, "outcome": {"kind": "ok", "summary": "it ended well"}, "causes": []}
    assert build_report(write_run(tmp_path, diagnosis=well, crash=False)).proof is None


@pytest.mark.parametrize("kind", ["verification", "investigation"])
def test_a_trial_that_rerail_stopped_is_clean_and_not_dead(tmp_path, kind):
    killed = {"id": "killed-from-outside", "probability": 0.8, "title": "Killed from outside"}
    outcome = Outcome("signal", "killed by SIGTERM", signal="SIGTERM", process="main")
    folder = write_run(
        tmp_path / ".rerail",
        diagnosis={**DIAGNOSIS, "headline": "Killed by SIGTERM.", "causes": [killed]},
        crash=False,
        outcome=outcome,
        ended_by="SIGTERM",
        settings={"investigation": "0123456789ab"} if kind == "investigation" else {},
    )
    trial = {
        "changes": ["--scan 0"],
        "outcome": "stopped",
        "exposure": 22,
        "unit": "steps",
        "run": folder.id,
    }
    if kind == "verification":
        keep(folder, verification={**VERIFICATION, "trials": [trial]})
    else:  # beside a trial there is no file: the investigation's notebook in the store has it
        notebooks = folder.path.parent.parent / "investigations"
        notebooks.mkdir()
        answer = {**INVESTIGATION, "trials": [trial]}
        (notebooks / "0123456789ab.json").write_text(json.dumps({"answer": answer, "trials": []}))
    document = build_report(folder)
    assert document.title.startswith("Clean for 22 steps with --scan 0, then stopped by rerail")
    assert not document.is_bad
    page = render(document)
    assert "SIGTERM" not in page and "killed-from-outside" not in page
    assert "clean, stopped" in page


def test_a_key_that_is_a_path_reads_nothing(tmp_path):
    folder = write_run(tmp_path / ".rerail", settings={"investigation": "../../secret"})
    (tmp_path / "secret.json").write_text(json.dumps({"answer": INVESTIGATION}))
    assert not build_report(folder).proof.answer


@pytest.mark.parametrize(
    ("command", "changes", "fixed"),
    [
        (["python", "a b.py"], ["--n 2"], "rerail run -- python 'a b.py' --n 2"),
        (["python", "t.py", "--n", "1"], ["--n 2"], "rerail run -- python t.py --n 2"),
        (["python", "t.py"], ["OMP_NUM_THREADS=1"], "OMP_NUM_THREADS=1 rerail run -- python t.py"),
        (["python", "t.py"], ["torch-threads=1"], None),  # made inside the process
        (["python", "t.py"], ["no such change"], None),
    ],
)
def test_the_fix_as_it_is_typed(command, changes, fixed):
    assert fixed_command(command, changes) == fixed


def test_the_python_stack_comes_first_and_own_code_is_marked(folder):
    document = build_report(folder)
    crash = next(section for section in document.sections if section.anchor == "crash")
    listings = [block for block in crash.blocks if isinstance(block, Listing)]
    python, native = listings[:2]
    assert python.caption.endswith("Python") and not python.is_folded
    assert [line.is_own for line in python.lines] == [True]
    assert native.caption.endswith("native") and native.is_folded


def test_rows_of_nothing_but_zeros_are_folded():
    table = Table(["who", "count", "a", "b"], [["x", "1", "0", "0 MiB"], ["y", "1", "2", "0"]])
    shown, folded = without_zero_rows(
        Table(table.columns, table.rows, "T", [1, 2, 3]), ignored=(1,)
    )
    assert shown.rows == [["y", "1", "2", "0"]] and not shown.is_folded
    assert folded.rows == [["x", "1", "0", "0 MiB"]] and folded.is_folded
    all_zero = Table(table.columns, table.rows[:1], "T", [2, 3])
    assert without_zero_rows(all_zero) == [all_zero]
    assert without_zero_rows(Table(["a"], [["0.5 s"]], "T", [0]))[0].rows == [["0.5 s"]]


def test_the_process_of_the_users_own_code_is_marked(tmp_path):
    where = {"file": "train.py", "line": 12, "function": "main", "process": "main process"}
    diagnosis = {**DIAGNOSIS, "facts": {**DIAGNOSIS["facts"], "where": where}}
    document = build_report(write_run(tmp_path, diagnosis=diagnosis))
    assert ("where", "train.py:12 main() · library libfast.so · main process") in (
        document.facts.items
    )
    processes = next(section for section in document.sections if section.anchor == "processes")
    (table,) = processes.blocks
    assert table.marked == [0] and "your code was here" in table.rows[0][1]


def test_what_was_undecided_is_said_in_the_section_of_experiments(folder):
    write_investigation(folder, {**INVESTIGATION, "status": "inconclusive", "changes": []})
    document = build_report(folder)
    section = next(section for section in document.sections if section.anchor == "experiments")
    assert any(isinstance(b, Paragraph) and "budget ended" in b.text for b in section.blocks)
