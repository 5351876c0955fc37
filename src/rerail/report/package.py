"""One zip that a colleague needs, and nothing in it that is nobody's business.

In: a run folder and its diagnosis. Out: a zip of fixed names, or the list of what would go in.
Promises: everything is masked before it is encoded; the black boxes and raw crash files stay at
home; the same run gives the same bytes; no name inside comes from the run, so that no path can
point outside the folder that it is unpacked into.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rerail.evidence.run_material import RecordedRun, read_material
from rerail.records import ProcessVitals
from rerail.report import html, markdown
from rerail.report.charts import thin
from rerail.report.document import Document
from rerail.report.experiments import read_experiments
from rerail.report.printed import readable
from rerail.report.redact import Redactor
from rerail.report.summary import summary_page
from rerail.report.verdict import as_object
from rerail.report.view import document_of
from rerail.report.writing import write_file
from rerail.store import OutputLine, OutputReader, RunFolder
from rerail.store.codec import encode

OUTPUT_HEAD_BYTES = 256 << 10
OUTPUT_TAIL_BYTES = 2 << 20
_MOST_VITALS = 5000
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold
_READABLE_FILE = 0o100644 << 16


@dataclass(frozen=True)
class Package:
    """What goes in, and what was masked on the way: kinds and counts, never values."""

    files: list[tuple[str, bytes]]
    masked: dict[str, int]

    def write(self, path: Path) -> int:
        return write_file(path, self.to_zip())

    def to_zip(self) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, data in self.files:
                entry = zipfile.ZipInfo(name, _FIXED_TIME)
                entry.external_attr = _READABLE_FILE
                entry.create_system = 3  # Unix, wherever it is packed
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        return buffer.getvalue()


def pack(folder: RunFolder, diagnosis: dict[str, Any]) -> Package:
    """The package of a run; nothing is written yet."""
    run = read_material(folder)
    output = folder.output()
    texts = _bounded_output(output)
    experiments = read_experiments(folder.path)
    redactor = _taught(run, diagnosis, experiments, texts)
    run = _masked_run(run, redactor)
    diagnosis = as_object(redactor.mask_value(diagnosis))
    experiments = as_object(redactor.mask_value(experiments))
    document = document_of(run, diagnosis, _MaskedOutput(output, redactor), experiments)
    # Once more over the whole page: what a template joins may only now look like a secret.
    document = redactor.mask_value(document)
    files = [
        ("SUMMARY.md", summary_page(run, diagnosis)),
        ("report.html", html.render(document)),
        ("report.md", markdown.render(_brief(document))),
        ("output.txt", redactor.mask(texts)),
        ("diagnosis.json", _json(diagnosis)),
        ("configuration.json", _json(_configuration(run))),
        ("versions.txt", _versions(run)),
        ("reproduce.sh", _reproduce(run)),
        ("vitals.csv", _vitals(run)),
        ("events.jsonl", _events(run)),
        ("crashes.json", _json({"items": encode(run.crashes)})),
    ]
    files += [(name, _json(document)) for name, document in experiments.items()]
    return Package(
        [(name, text.encode("utf-8", "replace")) for name, text in files],
        dict(sorted(redactor.counts.items())),
    )


class _MaskedOutput(OutputReader):
    """The output with masks in place of secrets, before any line is cut to length."""

    def __init__(self, inner: OutputReader, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor

    @property
    def dropped_bytes(self) -> int:
        return self._inner.dropped_bytes

    def tail(self, count: int) -> list[OutputLine]:
        return [self._masked(line) for line in self._inner.tail(count)]

    def lines(self, first: int = 1, last: int | None = None) -> Any:
        return (self._masked(line) for line in self._inner.lines(first, last))

    def _masked(self, line: OutputLine) -> OutputLine:
        # Colours first: the end of an escape sequence would hide the beginning of a token.
        text = self._redactor.mask(readable(line.text, longest=None))
        return line._replace(text=text.encode("utf-8", "replace"))


def _taught(
    run: RecordedRun, diagnosis: dict[str, Any], experiments: dict[str, Any], output: str
) -> Redactor:
    redactor = Redactor()
    environment = as_object(run.surroundings.get("environment"))
    redactor.names.add_environment(environment)
    redactor.names.add_host(run.info.host)
    system = as_object(run.surroundings.get("system"))
    if isinstance(system.get("host"), str):
        redactor.names.add_host(system["host"])
    for part in _texts_of(run):
        redactor.learn_value(part)
    redactor.learn_value(diagnosis)
    redactor.learn_value(experiments)
    redactor.learn_text(output)
    redactor.finish_learning()
    return redactor


def _texts_of(run: RecordedRun) -> list[Any]:
    """The parts of a run that hold texts; vitals are numbers."""
    return [
        run.info,
        run.surroundings,
        [event.data for event in run.events],
        run.processes,
        run.boxes,
        run.crashes,
        run.libraries,
        run.stalls,
        run.after,
        run.missing,
    ]


def _masked_run(run: RecordedRun, redactor: Redactor) -> RecordedRun:
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


def _brief(document: Document) -> Document:
    """For Markdown: without what is long and folded on the page."""
    sections = [
        replace(
            section,
            blocks=[block for block in section.blocks if not getattr(block, "is_folded", False)],
        )
        for section in document.sections
        if section.anchor not in ("environment",)
    ]
    return replace(document, sections=sections)


def _json(value: Any) -> str:
    return json.dumps(encode(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _configuration(run: RecordedRun) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in run.surroundings.items()
        if name not in ("schema", "packages", "missing")
    }
    return {
        "command": run.info.command,
        "cwd": run.info.cwd,
        "rerail": run.info.rerail_version,
        "settings": run.info.settings,
        "surroundings": kept,
        "boxes": [
            {
                "pid": box.pid,
                "rank": box.rank,
                "world_size": box.world_size,
                "loaders": encode(box.loaders),
                "files": encode(box.files),
                "backward_per_step": box.backward_per_step,
                "batch_shapes": box.batch_shapes,
            }
            for box in run.boxes
        ],
    }


def _versions(run: RecordedRun) -> str:
    lines = [f"rerail {run.info.rerail_version}"]
    pythons = sorted({box.python_version for box in run.boxes if box.python_version})
    lines += [f"Python {version}" for version in pythons]
    packages = run.surroundings.get("packages")
    if isinstance(packages, dict):
        lines += [f"{name}=={version}" for name, version in sorted(packages.items())]
    elif isinstance(packages, list):
        lines += sorted(str(item) for item in packages)
    return "\n".join(lines) + "\n"


def _reproduce(run: RecordedRun) -> str:
    """A script to read and to adapt: masked values have to be filled in."""
    git = as_object(run.surroundings.get("git"))
    lines = [
        "#!/bin/sh",
        "# How the run was started. Fill in what is masked, then run it.",
        "set -e",
    ]
    if isinstance(git.get("commit"), str):
        dirty = " with uncommitted changes" if git.get("is_dirty") else ""
        lines.append(f"# git commit {_one_line(git['commit'])}{dirty}")
    lines.append(f"cd {shlex.quote(run.info.cwd)}")
    command = " ".join(shlex.quote(argument) for argument in run.info.command)
    lines.append(f"rerail run -- {command}")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _vitals(run: RecordedRun) -> str:
    names = [field.name for field in fields(ProcessVitals)]
    machine = sorted({name for row in run.vitals for name in row.machine})
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["t_seconds", "span_seconds", "processes", *names, *machine])
    for row in thin(run.vitals, lambda row: float(row.tree.rss_bytes), _MOST_VITALS):
        writer.writerow(
            [
                row.t_seconds,
                row.span_seconds,
                row.process_count,
                *(getattr(row.tree, name) for name in names),
                *(row.machine.get(name, "") for name in machine),
            ]
        )
    return buffer.getvalue()


def _events(run: RecordedRun) -> str:
    lines = [
        json.dumps(
            encode({"t": event.t_seconds, "kind": event.kind, **event.data}), ensure_ascii=False
        )
        for event in run.events
    ]
    return "\n".join([*lines, ""])
