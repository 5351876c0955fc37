"""A run with secrets, and for the package also names, replaced: what page and package are made of.

In: a run folder, its diagnosis, a redactor. Out: the records, the diagnosis, the experiments and
the output, masked as texts before anything is encoded. First all of it is read and every secret
learnt, then all of it is masked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rerail.diagnosis import Candidate, Diagnosis
from rerail.evidence import RecordedRun, learn_records, read_material
from rerail.privacy import Redactor
from rerail.records import Outcome
from rerail.report.experiments import read_experiments
from rerail.report.printed import readable
from rerail.report.verdict import as_object
from rerail.store import OutputLine, OutputReader, RunFolder

OUTPUT_HEAD_BYTES = 256 << 10
OUTPUT_TAIL_BYTES = 2 << 20
_MOST_MASKED_BYTES = 4 << 20  # of the last lines; masking costs more than reading


@dataclass(frozen=True)
class MaskedRun:
    run: RecordedRun
    diagnosis: Diagnosis
    experiments: dict[str, Any]
    output: OutputReader
    output_text: str  # the beginning and the end of the output
    redactor: Redactor


def mask_run(folder: RunFolder, diagnosis: Diagnosis | None, redactor: Redactor) -> MaskedRun:
    """Without a diagnosis, nobody has asked yet why it ended."""
    run = read_material(folder)
    output = folder.output()
    text = _bounded_output(output)
    experiments = read_experiments(folder.path, run.info.settings)
    _teach(redactor, run, diagnosis, experiments, text)
    return MaskedRun(
        run=_masked_records(run, redactor),
        diagnosis=masked_diagnosis(diagnosis, redactor),
        experiments=as_object(redactor.mask_value(experiments)),
        output=MaskedOutput(output, redactor),
        output_text=redactor.mask(text),
        redactor=redactor,
    )


class MaskedOutput(OutputReader):
    """The output with masks in place of secrets, before any line is cut to length."""

    def __init__(self, inner: OutputReader, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor

    @property
    def dropped_bytes(self) -> int:
        return self._inner.dropped_bytes

    def tail(self, count: int) -> list[OutputLine]:
        kept: list[OutputLine] = []
        left = _MOST_MASKED_BYTES
        for line in reversed(self._inner.tail(count)):
            if left <= 0:
                break
            left -= len(line.text)
            kept.append(masked_line(line, self._redactor))
        return kept[::-1]

    def lines(self, first: int = 1, last: int | None = None, most_bytes: int | None = None) -> Any:
        found = self._inner.lines(first, last, most_bytes)
        return (masked_line(line, self._redactor) for line in found)


def masked_line(line: OutputLine, redactor: Redactor) -> OutputLine:
    # Colours first: the end of an escape sequence would hide the beginning of a token.
    text = redactor.mask(readable(line.text, longest=None))
    return line._replace(text=text.encode("utf-8", "replace"))


def _teach(
    redactor: Redactor,
    run: RecordedRun,
    diagnosis: Diagnosis | None,
    experiments: dict[str, Any],
    output: str,
) -> None:
    learn_records(redactor, run)
    learn_diagnosis(redactor, diagnosis)
    redactor.learn_value(experiments)
    redactor.learn_text(output)
    redactor.finish_learning()


def learn_diagnosis(redactor: Redactor, diagnosis: Diagnosis | None) -> None:
    redactor.learn_value(diagnosis.to_json() if diagnosis is not None else None)


def masked_diagnosis(diagnosis: Diagnosis | None, redactor: Redactor) -> Diagnosis:
    """What its document says, masked; rerail's own words stay, though a user may be called "ok"."""
    if diagnosis is None:
        return Diagnosis(Outcome("unknown", ""))
    mask = redactor.mask_value
    return replace(
        diagnosis,
        outcome=replace(mask(diagnosis.outcome), kind=diagnosis.outcome.kind),
        candidates=tuple(_masked_candidate(each, redactor) for each in diagnosis.causes),
        facts=mask(diagnosis.facts),
        next_step=mask(diagnosis.next_step),
        observations=(),
        incomplete=mask(diagnosis.incomplete),
        skipped=mask(diagnosis.skipped),
        headline_on_record=mask(diagnosis.headline),
        second_opinion=None,
        job=mask(diagnosis.job),
    )


def _masked_candidate(candidate: Candidate, redactor: Redactor) -> Candidate:
    mask, cause = redactor.mask_value, candidate.cause
    remedies = tuple(replace(mask(each), safety=each.safety) for each in cause.remedies)
    return replace(
        candidate,
        cause=replace(cause, title=mask(cause.title), remedies=remedies),
        speaks_for=mask(candidate.speaks_for),
        speaks_against=mask(candidate.speaks_against),
    )


def _masked_records(run: RecordedRun, redactor: Redactor) -> RecordedRun:
    return replace(
        run,
        info=redactor.mask_value(run.info),
        surroundings=redactor.mask_value(run.surroundings),
        events=redactor.mask_value(run.events),
        processes=redactor.mask_value(run.processes),
        boxes=redactor.mask_value(run.boxes),
        crashes=redactor.mask_value(run.crashes),
        libraries=redactor.mask_value(run.libraries),
        stalls=redactor.mask_value(run.stalls),
        after=redactor.mask_value(run.after),
        missing=redactor.mask_value(run.missing),
    )


def _bounded_output(output: OutputReader) -> str:
    """The beginning and the end, cut at lines, each line as it last stood on the screen."""
    head: list[str] = []
    size, last_number = 0, 0
    for line in output.lines():
        if size + len(line.text) > OUTPUT_HEAD_BYTES:
            break
        head.append(readable(line.text, longest=None))
        size += len(line.text) + 1
        last_number = line.number
    tail: list[str] = []
    size = 0
    first_number = 0
    for line in reversed(output.tail(40_000)):
        if line.number <= last_number or size + len(line.text) > OUTPUT_TAIL_BYTES:
            break
        tail.append(readable(line.text, longest=None))
        size += len(line.text) + 1
        first_number = line.number
    tail.reverse()
    if tail and first_number > last_number + 1:
        head.append(f"[lines {last_number + 1} to {first_number - 1} left out]")
    return "\n".join([*head, *tail, ""])
