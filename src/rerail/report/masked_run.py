"""A run with secrets, and for the package also names, replaced: what page and package are made of.

In: a run folder, its diagnosis, a redactor. Out: the records, the diagnosis, the experiments and
the output, masked as texts before anything is encoded. First all of it is read and every secret
learnt, then all of it is masked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rerail.evidence import RecordedRun, learn_records, read_material
from rerail.privacy import Redactor
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
    diagnosis: dict[str, Any]
    experiments: dict[str, Any]
    output: OutputReader
    output_text: str  # the beginning and the end of the output
    redactor: Redactor


def mask_run(folder: RunFolder, diagnosis: dict[str, Any], redactor: Redactor) -> MaskedRun:
    run = read_material(folder)
    output = folder.output()
    text = _bounded_output(output)
    experiments = read_experiments(folder.path, run.info.settings)
    _teach(redactor, run, diagnosis, experiments, text)
    return MaskedRun(
        run=_masked_records(run, redactor),
        diagnosis=as_object(redactor.mask_value(diagnosis)),
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
    diagnosis: dict[str, Any],
    experiments: dict[str, Any],
    output: str,
) -> None:
    learn_records(redactor, run)
    for part in (diagnosis, experiments):
        redactor.learn_value(part)
    redactor.learn_text(output)
    redactor.finish_learning()


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
