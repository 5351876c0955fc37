"""One run as a document: what the HTML page, the Markdown page and the package all show.

In: a run folder and, if somebody has it already, its diagnosis. Out: `Document`. Pure but for
reading the folder; nothing is written. Secrets are masked; names of people and machines stay, since
the page stays where it is written (`package` takes those out too).
"""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from typing import Any

import rerail
from rerail.diagnosis import Diagnosis, ending_of, leading_probability_of
from rerail.evidence import RecordedRun
from rerail.live import gates_of
from rerail.privacy import SecretRedactor
from rerail.report.charts import timeline
from rerail.report.document import Document, Facts, Section, Table
from rerail.report.experiments import (
    experiment_section,
    trial_in_words,
    trial_of,
    was_stopped,
)
from rerail.report.inventory import (
    environment_section,
    library_section,
    memory_section,
    missing_section,
    process_section,
)
from rerail.report.masked_run import mask_run
from rerail.report.printed import output_section
from rerail.report.proof import is_settled, proof_of
from rerail.report.stacks import crash_section, stall_section
from rerail.report.stopped_trial import as_stopped
from rerail.report.verdict import (
    as_object,
    as_text,
    cause_line,
    cited_lines,
    fact_list,
    first_fix,
    verdict_section,
    where_and_what,
)
from rerail.store import OutputReader, RunFolder
from rerail.wording import seconds_in_words, sentence


def build_document(folder: RunFolder, diagnosis: Diagnosis) -> Document:
    """The report of a run."""
    redactor = SecretRedactor(folder.private().secrets)
    masked = mask_run(folder, diagnosis, redactor)
    document = document_of(masked.run, masked.diagnosis, masked.output, masked.experiments)
    return redactor.mask_value(document)  # what a template joins may only now look like a secret


def document_of(
    run: RecordedRun,
    diagnosis: Diagnosis,
    output: OutputReader,
    experiments: dict[str, Any],
) -> Document:
    """The same from records in hand."""
    trial = trial_of(experiments, run.info)
    if was_stopped(trial):
        run, diagnosis = as_stopped(run, diagnosis, trial)
    proof = proof_of(diagnosis, experiments, run.info.command)
    charts = timeline(run)
    experiment = experiment_section(experiments, proof.answer if proof else "")
    verdict = verdict_section(diagnosis, is_settled=is_settled(proof), says_next=proof is None)
    sections = [
        *((experiment, verdict) if is_settled(proof) else (verdict,)),
        Section("timeline", "Timeline", list(charts)) if charts else None,
        crash_section(run),
        stall_section(run),
        output_section(output, cited_lines(diagnosis)),
        None if is_settled(proof) else experiment,
        memory_section(run),
        _gate_section(run),
        process_section(run, as_text(as_object(diagnosis.facts.get("where")).get("process"))),
        library_section(run),
        environment_section(run),
        missing_section(run),
    ]
    title = sentence(_title(diagnosis, run))
    return Document(
        title=title,
        summary=_summary(diagnosis, run, title),
        facts=Facts(
            [*where_and_what(diagnosis), *_run_facts(run, trial), *fact_list(diagnosis).items]
        ),
        sections=[section for section in sections if section is not None],
        run_id=run.info.id,
        generator=f"rerail {rerail.__version__}",
        is_bad=ending_of(run.info.outcome, leading_probability_of(diagnosis)) != "ok",
        proof=proof,
        cause=cause_line(diagnosis, is_settled=is_settled(proof)),
        fix=None if is_settled(proof) else first_fix(diagnosis),
    )


def _gate_section(run: RecordedRun) -> Section | None:
    words = {False: "not met", True: "met", None: "not judged"}
    gates = gates_of(run.events)
    rows = [[words[gate.is_met], gate.text] for gate in gates]
    marked = [i for i, gate in enumerate(gates) if gate.is_met is False]
    table = Table(["gate", "what was seen"], rows, marked=marked)
    return Section("gates", "Gates", [table]) if rows else None


def _summary(diagnosis: Diagnosis, run: RecordedRun, title: str) -> str:
    """How it ended; empty where the headline says it already."""
    summary = diagnosis.outcome.summary
    if not summary and run.info.outcome is not None:
        summary = run.info.outcome.summary
    said = sentence(summary or "How it ended is not known")
    return "" if said.rstrip(".").lower() in title.lower() else said


def _title(diagnosis: Diagnosis, run: RecordedRun) -> str:
    """The headline; how it ended where nobody has asked why."""
    if diagnosis.headline_on_record:
        return diagnosis.headline_on_record
    kind = run.info.outcome.kind if run.info.outcome else "unknown"
    return {
        "ok": "The run ended well",
        "hang": "The run stood still",
        "unknown": "How the run ended is not known",
    }.get(kind, "The run died, and no known cause fits")


def _run_facts(run: RecordedRun, trial: dict[str, Any]) -> list[tuple[str, str]]:
    started = datetime.fromtimestamp(run.info.started_unix, timezone.utc)
    found = [
        ("command", command_line(run.info.command)),
        ("started", started.strftime("%Y-%m-%d %H:%M:%S UTC")),
    ]
    if run.info.elapsed_seconds is not None:
        found.append(("ran for", seconds_in_words(run.info.elapsed_seconds)))
    label = run.info.settings.get("label")
    if trial:
        found.append(("trial", trial_in_words(trial)))
    elif isinstance(label, str):
        found.append(("label", label))
    return found


def command_line(command: list[str]) -> str:
    """As it would be typed."""
    return shlex.join(command)
