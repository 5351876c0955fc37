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

from rerail.diagnosis import Diagnosis
from rerail.evidence import RecordedRun
from rerail.platform.os_text import shown_value, to_bytes
from rerail.privacy import Redactor
from rerail.records import ProcessVitals
from rerail.report import html, markdown
from rerail.report.charts import thin
from rerail.report.document import Document
from rerail.report.masked_run import mask_run
from rerail.report.summary import summary_page
from rerail.report.verdict import as_object
from rerail.report.view import document_of
from rerail.report.writing import write_file
from rerail.store import RunFolder, encode

_MOST_VITALS = 5000
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold
_READABLE_FILE = 0o100644 << 16


@dataclass(frozen=True)
class Package:
    """What goes in, and what was masked on the way: kinds and counts, never values."""

    files: list[tuple[str, bytes]]
    masked: dict[str, int]
    diagnosis: Diagnosis  # masked

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


def pack(folder: RunFolder, diagnosis: Diagnosis) -> Package:
    """The package of a run; nothing is written yet."""
    redactor = Redactor(folder.private().secrets)
    masked = mask_run(folder, diagnosis, redactor)
    run, diagnosis, experiments = masked.run, masked.diagnosis, masked.experiments
    document = document_of(run, diagnosis, masked.output, experiments)
    # Once more over the whole page: what a template joins may only now look like a secret.
    document = redactor.mask_value(document)
    files = [
        ("SUMMARY.md", summary_page(run, diagnosis)),
        ("report.html", html.render(document)),
        ("report.md", markdown.render(_brief(document))),
        ("output.txt", masked.output_text),
        ("diagnosis.json", _json(diagnosis.to_json())),
        ("configuration.json", _json(_configuration(run))),
        ("versions.txt", _versions(run)),
        ("reproduce.sh", _reproduce(run)),
        ("vitals.csv", _vitals(run)),
        ("events.jsonl", _events(run)),
        ("crashes.json", _json({"items": encode(run.crashes)})),
    ]
    files += [(name, _json(document)) for name, document in experiments.items()]
    return Package(
        [(name, to_bytes(text)) for name, text in files],
        dict(sorted(redactor.counts.items())),
        diagnosis,
    )


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
    return (
        json.dumps(shown_value(encode(value)), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


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
            shown_value(encode({"t": event.t_seconds, "kind": event.kind, **event.data})),
            ensure_ascii=False,
        )
        for event in run.events
    ]
    return "\n".join([*lines, ""])
