"""The door: a whole folder, damaged folders, earlier runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_builders import box, recorded, steps

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
from report_runs import write_run

from rerail.diagnosis import diagnose
from rerail.errors import UnreadableInput
from rerail.evidence.run.collect import READERS, collect_recorded, collect_run
from rerail.records import Observation, Outcome
from rerail.store import RunFolder


def kinds(evidence):
    return [o.kind for o in evidence.observations]


def test_a_whole_folder_gives_typed_observations_with_sources_and_facts(tmp_path):
    evidence = collect_run(write_run(tmp_path / ".rerail"))
    assert evidence.origin == "run" and evidence.outcome.signal == "SIGSEGV"
    assert {"death", "crash", "memory-growth", "history", "progress"} <= set(kinds(evidence))
    assert evidence.facts["last_step"] == 39 and evidence.facts["library"] == "libfast.so"
    assert None not in evidence.facts.values()
    for o in evidence.observations:
        assert o.text[-1] in ".…!?)" or o.source.startswith("output:"), o
        assert o.source.split(":")[0] in (
            "output",
            "kernel",
            "vitals",
            "maps",
            "stack",
            "exit",
            "box",
            "history",
        )
    json.dumps(evidence.facts)


def test_the_printed_step_goes_before_the_counted_one():
    run = recorded(boxes=[box(optimizer_steps=40, history=steps(40), loss=0.1)])
    from rerail.evidence.text.observing import TextEvidence

    printed = Observation(
        "progress", "step 39", "output:40", {"step": 39, "epoch": 2.0, "loss": 0.8}
    )
    facts = collect_recorded(run, (), TextEvidence([printed])).facts
    assert (facts["last_step"], facts["optimizer_steps"]) == (39, 40)
    assert (facts["epoch"], facts["loss"]) == (2, 0.8)


@pytest.mark.parametrize(
    ("child", "printed", "cause"),
    [
        ("raise KeyError('label')", "KeyError: 'label'", "python-exception"),
        ("__import__('os')._exit(1)", "", "worker-crashed"),
    ],
)
def test_a_child_that_printed_its_traceback_did_not_die_without_a_word(
    tmp_path, child, printed, cause
):
    program = tmp_path / "children.py"
    program.write_text(
        "import multiprocessing, sys\n"
        f"def work():\n    {child}\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start()\n    process.join()\n    sys.exit(process.exitcode)\n"
    )
    home = tmp_path / "home"
    run = [sys.executable, "-m", "rerail", "run", "--home", home, "--", sys.executable, program]
    done = subprocess.run(run, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1 and printed in done.stderr
    [folder] = (home / "runs").iterdir()
    causes = diagnose(collect_run(RunFolder(folder))).candidates
    assert causes[0].cause.id == cause


def test_earlier_runs_of_the_same_command_give_a_history(tmp_path):
    folders = [write_run(tmp_path / ".rerail") for _ in range(3)]
    evidence = collect_run(folders[-1], folders[:-1])
    (history,) = [o for o in evidence.observations if o.kind == "history"]
    assert history.data["runs"] == 3 and history.data["deaths"] == 3


def test_an_earlier_run_that_cannot_be_read_is_passed_over(tmp_path):
    old, new = write_run(tmp_path / ".rerail"), write_run(tmp_path / ".rerail")
    (old.path / "run.json").write_text("{")
    (history,) = [o for o in collect_run(new, [old]).observations if o.kind == "history"]
    assert history.data["runs"] == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 7}'])
def test_without_its_run_json_a_folder_is_none(tmp_path, text):
    folder = write_run(tmp_path / ".rerail")
    (folder.path / "run.json").write_text(text)
    with pytest.raises(UnreadableInput):
        collect_run(folder)


@pytest.mark.parametrize("name", ["crashes.json", "surroundings.json", "after.json"])
@pytest.mark.parametrize("text", ["{", '{"schema": 7}', '{"schema": 1, "items": [3]}'])
def test_a_damaged_part_costs_itself_and_is_named(tmp_path, name, text):
    folder = write_run(tmp_path / ".rerail")
    (folder.path / name).write_text(text)
    evidence = collect_run(folder)
    assert "death" in kinds(evidence)
    if "items" not in text or name == "crashes.json":
        (missing,) = [o for o in evidence.observations if o.kind == "missing"]
        assert name in missing.text


def test_a_reader_that_trips_costs_its_own_observations_only(monkeypatch):
    def read_trouble(run):
        raise KeyError("gone")

    monkeypatch.setattr("rerail.evidence.run.collect.READERS", (*READERS, read_trouble))
    evidence = collect_recorded(recorded(Outcome("ok", "fine", exit_code=0)))
    assert "the record lacks trouble" in evidence.observations[-1].text.lower()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(
        ["events.jsonl", "vitals.jsonl", "crashes.json", "surroundings.json", "output.log"]
    ),
    place=st.floats(0, 1),
    rubbish=st.binary(max_size=40),
)
def test_cut_and_overwritten_files_never_give_a_traceback(tmp_path_factory, name, place, rubbish):
    folder = _template(tmp_path_factory)
    path = folder.path / name
    whole = path.read_bytes()
    at = int(place * len(whole))
    path.write_bytes(whole[:at] + rubbish)
    try:
        collect_run(folder)
    except UnreadableInput as error:
        assert error.message
    finally:
        path.write_bytes(whole)


def _template(factory) -> RunFolder:
    base = factory.getbasetemp() / "template"
    if not base.exists():
        write_run(base / ".rerail", rows=20)
    return RunFolder(next((base / ".rerail" / "runs").iterdir()))
