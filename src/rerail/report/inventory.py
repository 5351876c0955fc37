"""Who took part and what was there: processes, memory by component, libraries, environment.

In: a recorded run. Out: sections of tables. Long lists are bounded and folded.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rerail.evidence import (
    RecordedRun,
    libraries_by_process,
    limit_uses,
    memory_at_peak,
    process_name,
)
from rerail.records import ProcessRecord, ProcessVitals
from rerail.report.document import Block, Paragraph, Section, Table
from rerail.report.numbers import without_zero_rows
from rerail.wording import bytes_in_words, percent, seconds_in_words, standing_in_words

_MOST_PROCESSES = 200
_MOST_LIBRARIES = 400
_MOST_FILES = 50
_MOST_VALUES = 600
_LEAST_REST_BYTES = 1 << 20
_TITLES = {"cpu": "CPU", "gpu": "GPU", "cgroups": "Control groups"}
_TELLING_KINDS = ("openmp", "blas", "cuda")


def process_section(run: RecordedRun, where: str = "") -> Section | None:
    """`where` names the process in whose code of the user's it ended, as `facts.where` does."""
    if not run.processes:
        return None
    shown = sorted(run.processes, key=lambda p: (not _ended_badly(p), p.started_t_seconds))
    own = {p.key for p in shown if where and process_name(p, run.rank_of(p)) == where}
    shown.sort(key=lambda p: p.key not in own)
    rows = [
        [
            str(process.pid),
            standing_in_words(process) + (", your code was here" if process.key in own else ""),
            process.name,
            seconds_in_words(process.started_t_seconds),
            "" if process.ended_t_seconds is None else seconds_in_words(process.ended_t_seconds),
            _ending(process),
        ]
        for process in shown[:_MOST_PROCESSES]
    ]
    more = len(shown) - len(rows)
    caption = f"{len(shown)} processes" + (f", {more} of them not shown" if more > 0 else "")
    columns = ["pid", "role", "name", "started", "ended", "how it ended"]
    marked = [i for i, process in enumerate(shown[:_MOST_PROCESSES]) if process.key in own]
    table = Table(columns, rows, caption, [0, 3, 4], len(rows) > 12, marked)
    return Section("processes", "Processes", [table])


def _ended_badly(process: ProcessRecord) -> bool:
    return process.signal is not None or bool(process.exit_code)


def _ending(process: ProcessRecord) -> str:
    if process.signal is not None:
        return process.signal + (" (core file)" if process.dumped_core else "")
    return "" if process.exit_code is None else f"exit {process.exit_code}"


def memory_section(run: RecordedRun) -> Section | None:
    """Who held what at the moment of the highest use, and the data files that were loaded."""
    peak = memory_at_peak(run)
    if peak is None:
        return None
    groups: dict[str, list[ProcessVitals]] = {}
    for key, vitals in peak.processes.items():
        process = run.by_key.get(key)
        groups.setdefault(process.role if process else "child", []).append(vitals)
    rows = [_component(role, len(them), _sums(them)) for role, them in groups.items()]
    everything = _sums([peak.row.tree])
    known = _sums(list(peak.processes.values()))
    rest = [max(0, whole - part) for whole, part in zip(everything, known, strict=True)]
    if rest[-1] >= _LEAST_REST_BYTES:
        unseen = max(0, peak.row.process_count - len(peak.processes))
        rows.append(_component("not told apart", unseen, rest))
    rows.append(_component("all", peak.row.process_count, everything))
    table = Table(
        ["component", "processes", "anonymous", "shared", "file pages", "swap", "sum"],
        rows,
        f"At the highest use, {seconds_in_words(peak.row.t_seconds)} after the start"
        f" ({peak.row.memory_notion})",
        [1, 2, 3, 4, 5, 6],
    )
    blocks = without_zero_rows(table, ignored=(1,))
    limits = [
        [
            use.source,
            bytes_in_words(use.limit_bytes),
            bytes_in_words(use.used_bytes),
            percent(use.fraction),
        ]
        for use in limit_uses(run)
    ]
    if limits:
        table = Table(["limit", "at most", "highest use", "share"], limits, "Limits", [1, 2, 3])
        blocks += without_zero_rows(table, ignored=(1, 2))
    files = _loaded_files(run)
    if files:
        columns = ["file", "loaded by", "size", "in memory"]
        blocks.append(Table(columns, files, "Data files that were loaded", [2]))
    return Section("memory", "Memory by component", blocks)


def _sums(members: list[ProcessVitals]) -> list[int]:
    parts = [
        sum(v.anon_bytes for v in members),
        sum(v.shared_bytes for v in members),
        sum(v.file_bytes for v in members),
        sum(v.swap_bytes for v in members),
    ]
    return [*parts, sum(parts)]


def _component(name: str, count: int, sums: list[int]) -> list[str]:
    return [name, str(count), *(bytes_in_words(value) if value else "0" for value in sums)]


def _loaded_files(run: RecordedRun) -> list[list[str]]:
    seen = {(f.path, f.loader): f for box in run.boxes for f in box.files}
    largest = sorted(seen.values(), key=lambda f: -f.size_bytes)[:_MOST_FILES]
    return [
        [
            f.path,
            f.loader,
            bytes_in_words(f.size_bytes),
            "mapped"
            if f.is_mapped
            else "read whole" + (", decompressed" if f.is_compressed else ""),
        ]
        for f in largest
    ]


def library_section(run: RecordedRun) -> Section | None:
    seen: dict[str, tuple[str, str]] = {}
    users: Counter[str] = Counter()
    for libraries in libraries_by_process(run).values():
        for library in libraries:
            seen[library.path] = (library.kind or "", library.flavour or "")
            users[library.path] += 1
    if not seen:
        return None
    rows = [
        [kind, flavour, path, str(users[path])] for path, (kind, flavour) in sorted(seen.items())
    ]
    telling = [row for row in rows if row[0] in _TELLING_KINDS]
    others = [row for row in rows if row[0] not in _TELLING_KINDS]
    columns = ["kind", "flavour", "path", "processes"]
    blocks: list[Block] = []
    if telling:
        caption = "Runtimes that should be there once"
        blocks.append(Table(columns, sorted(telling), caption, [3]))
    else:
        blocks.append(Paragraph("No OpenMP, BLAS or CUDA library was seen."))
    if others:
        caption = f"All other native libraries ({len(others)})"
        blocks.append(Table(columns, others[:_MOST_LIBRARIES], caption, [3], is_folded=True))
    return Section("libraries", "Native libraries", blocks)


def environment_section(run: RecordedRun) -> Section:
    info = run.info
    blocks: list[Block] = [
        Table(
            ["what", "value"],
            [
                ["working folder", info.cwd],
                ["host", info.host],
                ["rerail", info.rerail_version],
                ["terminal", "yes" if info.has_terminal else "no"],
            ],
            "The run",
        )
    ]
    for name, value in run.surroundings.items():
        if name in ("schema", "command", "cwd", "working_folder"):
            continue
        rows = flattened(value)[:_MOST_VALUES]
        if rows:
            columns = ["what", "value"] if any(row[0] for row in rows) else ["", "value"]
            title = _TITLES.get(name, name.replace("_", " ").capitalize())
            blocks.append(Table(columns, rows, title, is_folded=len(rows) > 8))
    return Section("environment", "Environment", blocks)


def flattened(value: Any, name: str = "") -> list[list[str]]:
    """Nested JSON as rows of dotted names and texts."""
    if isinstance(value, dict):
        found = []
        for key, inner in value.items():
            found += flattened(inner, f"{name}.{key}" if name else str(key))
        return found
    if isinstance(value, list):
        if not value:
            return []
        if all(not isinstance(item, (dict, list)) for item in value):
            text = ", ".join(_text(item) for item in value)
            return [[name, text]] if len(text) <= 300 else [[name, _text(item)] for item in value]
        return [row for i, item in enumerate(value) for row in flattened(item, f"{name}[{i}]")]
    return [] if value is None or value == "" else [[name, _text(value)]]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def missing_section(run: RecordedRun) -> Section | None:
    if not run.missing:
        return None
    rows = [[what, why] for what, why in run.missing]
    return Section("missing", "What the record lacks", [Table(["what", "why"], rows)])
