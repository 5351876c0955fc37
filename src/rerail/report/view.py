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
from rerail.evidence import RecordedRun
from rerail.privacy import SecretRedactor
from rerail.report.charts import timeline
from rerail.report.document import Document, Facts, Section
from rerail.report.experiments import experiment_section
from rerail.report.inventory import (
    environment_section,
    library_section,
    memory_section,
    missing_section,
    process_section,
)
from rerail.report.masked_run import mask_run
from rerail.report.printed import output_section
from rerail.report.stacks import crash_section, stall_section
from rerail.report.verdict import (
    as_list,
    as_object,
    as_text,
    cited_lines,
    fact_list,
    verdict_section,
)
from rerail.store import OutputReader, RunFolder
from rerail.wording import seconds_in_words, sentence


def build_document(folder: RunFolder, diagnosis: dict[str, Any]) -> Document:
    """The report of a run. `diagnosis` is the contract's `explain --json` document."""
    redactor = SecretRedactor(folder.private().secrets)
    masked = mask_run(folder, diagnosis, redactor)
    document = document_of(masked.run, masked.diagnosis, masked.output, masked.experiments)
    return redactor.mask_value(document)  # what a template joins may only now look like a secret


def document_of(
    run: RecordedRun,
    diagnosis: dict[str, Any],
    output: OutputReader,
    experiments: dict[str, Any],
) -> Document:
    """The same from records in hand."""
    charts = timeline(run)
    sections = [
        verdict_section(diagnosis),
        Section("timeline", "Timeline", list(charts)) if charts else None,
        crash_section(run),
        stall_section(run),
        output_section(output, cited_lines(diagnosis)),
        experiment_section(experiments),
        memory_section(run),
        process_section(run),
        library_section(run),
        environment_section(run),
        missing_section(run),
    ]
    outcome = as_object(diagnosis.get("outcome"))
    summary = as_text(outcome.get("summary"))
    if not summary and run.info.outcome is not None:
        summary = run.info.outcome.summary
    return Document(
        title=_title(diagnosis, run),
        summary=sentence(summary or "How it ended is not known"),
        facts=Facts([*_run_facts(run), *fact_list(diagnosis).items]),
        sections=[section for section in sections if section is not None],
        run_id=run.info.id,
        generator=f"rerail {rerail.__version__}",
        is_bad=bool(as_list(diagnosis.get("causes"))) or as_text(outcome.get("kind")) != "ok",
    )


def _title(diagnosis: dict[str, Any], run: RecordedRun) -> str:
    causes = as_list(diagnosis.get("causes"))
    if causes:
        first = as_object(causes[0])
        return as_text(first.get("title")) or as_text(first.get("id")) or "A cause without a name"
    kind = run.info.outcome.kind if run.info.outcome else "unknown"
    return {
        "ok": "The run ended well",
        "hang": "The run stood still",
        "unknown": "How the run ended is not known",
    }.get(kind, "The run died, and no known cause fits")


def _run_facts(run: RecordedRun) -> list[tuple[str, str]]:
    started = datetime.fromtimestamp(run.info.started_unix, timezone.utc)
    found = [
        ("command", command_line(run.info.command)),
        ("started", started.strftime("%Y-%m-%d %H:%M:%S UTC")),
    ]
    if run.info.elapsed_seconds is not None:
        found.append(("ran for", seconds_in_words(run.info.elapsed_seconds)))
    return found


def command_line(command: list[str]) -> str:
    """As it would be typed."""
    return shlex.join(command)
