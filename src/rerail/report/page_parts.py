"""Parts of a run's page, for whoever shows it piece by piece.

In: a run folder and its diagnosis. Out: the top of the page, charts of what the processes told, and
what masks the output; all masked as `rerail report` masks. Promises: the top reads neither vitals
nor output, so that it costs the same after a day as after a minute.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.diagnosis import Diagnosis
from rerail.evidence import RecordedRun, learn_records
from rerail.privacy import Redactor, SecretRedactor
from rerail.records import VitalsRow
from rerail.report.charts import marks_of, timeline
from rerail.report.document import Chart, Document, Mark
from rerail.report.experiments import read_experiments
from rerail.report.masked_run import learn_diagnosis, mask_run, masked_diagnosis
from rerail.report.verdict import as_object
from rerail.report.view import document_of
from rerail.store import OutputLine, OutputReader, RunFolder


def page_top(folder: RunFolder, diagnosis: Diagnosis | None) -> Document:
    """Headline, cause, proof and facts, without a section."""
    info = folder.info()
    experiments = read_experiments(folder.path, info.settings)
    run = RecordedRun(info)
    redactor = SecretRedactor(folder.private().secrets)
    learn_records(redactor, run)
    learn_diagnosis(redactor, diagnosis)
    redactor.learn_value(experiments)
    redactor.finish_learning()
    document = document_of(
        replace(run, info=redactor.mask_value(info)),
        masked_diagnosis(diagnosis, redactor),
        _NoOutput(),
        as_object(redactor.mask_value(experiments)),
    )
    return redactor.mask_value(replace(document, sections=[]))


def training_charts(folder: RunFolder) -> tuple[list[Chart], list[Mark]]:
    """Step time and loss, which the processes told of themselves, and the moments to mark."""
    run = RecordedRun(
        folder.info(),
        events=list(folder.events()),
        processes=folder.processes(),
        boxes=folder.boxes(),
        steps=folder.step_history(),
        stalls=folder.stalls(),
    )
    return timeline(run), marks_of(run)


def redactor_of(folder: RunFolder, diagnosis: Diagnosis | None) -> Redactor:
    """What masks the output of this run: it has learnt what the report's has."""
    return mask_run(
        _WithoutVitals(folder.path), diagnosis, SecretRedactor(folder.private().secrets)
    ).redactor


class _WithoutVitals(RunFolder):
    """Vitals are numbers: there is nothing to learn from them, and of a day they are many."""

    def merged_vitals(self) -> list[VitalsRow]:
        return []


class _NoOutput(OutputReader):
    def __init__(self) -> None:
        pass

    @property
    def dropped_bytes(self) -> int:
        return 0

    def tail(self, count: int) -> list[OutputLine]:
        return []
