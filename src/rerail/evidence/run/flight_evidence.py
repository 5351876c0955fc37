"""Dumps of PyTorch's Flight Recorder, beside logs that somebody names and beside a recorded run.

In: dumps that were found among inputs, or a recorded run. Out: the evidence with who failed first.
Promises: what a log or a record shows of the first rank's own failure goes before a dump, which
knows only who waited; of a recorded run only dumps written during it are read, regular files alone.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rerail.errors import UnreadableInput
from rerail.evidence.first.dumps import judge_dumps
from rerail.evidence.first.words import FAILURES, how_of
from rerail.evidence.run.log_files import LATE_SECONDS
from rerail.evidence.run.material import RecordedRun
from rerail.evidence.text.file_heads import HEAD_BYTES
from rerail.evidence.text.flight_dumps import (
    MOST_BYTES,
    FlightDump,
    is_dump,
    is_dump_name,
    read_dump,
)
from rerail.evidence.text.inputs import Inputs, Log
from rerail.platform.deadline import Deadline
from rerail.records import Evidence, Observation, Outcome
from rerail.store import read_regular

MOST_DUMPS = 4096
MOST_OF_RUN = 64  # while the end of the command waits for the answer
MOST_BYTES_OF_RUN = 16 << 20
MOST_SECONDS = 2.0
MOST_NAMES = 3000
_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_OF_A_PLACE = ("where", "raised_at")


def with_dumps(evidence: Evidence | None, inputs: Inputs) -> Evidence:
    """What the logs show, and the dumps among them; None: there were dumps alone."""
    dumps = _read_all(inputs)
    if not dumps and evidence is not None:
        return evidence
    found, said = judge_dumps(dumps)
    if evidence is None:
        evidence = Evidence(Outcome("unknown", said), [], {}, "logs", inputs.deadline.sentence)
    if found is None or _knows_better(evidence, found):
        return evidence
    kept = [o for o in evidence.observations if o.kind != "failed-first"]
    facts = {**evidence.facts, "failed_first": found.data["who"], "rank_story": found.data["story"]}
    facts.pop("echoes", None)
    process = (facts.get("where") or {}).get("process")
    if process and process != found.data["who"]:  # where the others gave up
        facts = {name: value for name, value in facts.items() if name not in _OF_A_PLACE}
    if where := found.data.get("where"):
        facts["where"] = where
    facts["dumps_read"] = len(dumps)
    return replace(evidence, observations=[*kept, found], facts=facts)


def _knows_better(evidence: Evidence, found: Observation) -> bool:
    """A log in which the same rank, or another, says how it failed by itself."""
    first = next((o for o in evidence.observations if o.kind == "failed-first"), None)
    if first is None:
        return False
    is_own_failure = how_of(first.data.get("how")) in FAILURES
    return is_own_failure or first.data.get("who") == found.data["who"]


def _read_all(inputs: Inputs) -> list[FlightDump]:
    found: dict[int, FlightDump] = {}
    errors: list[UnreadableInput] = []
    for log in inputs.dumps[:MOST_DUMPS]:
        if found and inputs.deadline.skips(f"{log.name} and the dumps after it"):
            break
        try:
            dump = _read(log)
            if found.setdefault(dump.rank, dump) is not dump:
                inputs.skipped.append((log.name, f"another dump of rank {dump.rank}"))
        except UnreadableInput as error:
            errors.append(error)
            inputs.skipped.append((log.name, error.message.rstrip(".")))
    if errors and not found and not inputs.logs:
        raise errors[0]
    return list(found.values())


def _read(log: Log) -> FlightDump:
    with log.opener() as file:
        return read_dump(file.read(MOST_BYTES + 1), log.name)


# ---- of a recorded run ---------------------------------------------------------------------------


def read_flight_recorder(run: RecordedRun) -> list[Observation]:
    """Who failed first, by the dumps that were written during the run."""
    outcome = run.info.outcome
    is_here = run.is_of_this_machine and "ray" not in run.info.settings
    if outcome is None or outcome.kind == "ok" or not is_here:
        return []
    dumps: dict[int, FlightDump] = {}
    ranks = {box.rank for box in run.boxes if box.rank is not None}
    deadline = Deadline(MOST_SECONDS)
    for path in _written_during(run)[:MOST_OF_RUN]:
        if deadline.is_over:
            return []  # the rank that failed first may be among those that were not read
        try:
            raw = read_regular(path, MOST_BYTES_OF_RUN)
            if is_dump(raw[:HEAD_BYTES]):
                dump = read_dump(raw, path.name)
                if dump.rank in ranks or not ranks:
                    dumps.setdefault(dump.rank, dump)
        except (UnreadableInput, OSError):
            continue
    found = judge_dumps(list(dumps.values()))[0] if len(dumps) > 1 else None
    return [found] if found is not None else []


def _written_during(run: RecordedRun) -> list[Path]:
    begin, elapsed = run.info.started_unix, run.info.elapsed_seconds
    end = time.time() if elapsed is None else begin + elapsed + LATE_SECONDS
    found = []
    for path in _candidates(run):
        try:
            status = path.lstat()
        except OSError:
            continue
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
        if is_own and status.st_size and begin <= status.st_mtime <= end:
            found.append((status.st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def _candidates(run: RecordedRun) -> Iterator[Path]:
    """Where the user had them written; else where torch writes them, and the working folder."""
    environment = run.surroundings.get("environment")
    known = environment if isinstance(environment, dict) else {}
    prefixes = [one for name in _PREFIXES if isinstance(one := known.get(name), str) and one]
    for prefix in prefixes[:1]:
        place = Path(run.info.cwd, prefix)
        yield from _names_in(place.parent, place.name)
    if not prefixes:
        yield from _names_in(Path.home() / ".cache" / "torch", "")
        yield from _names_in(Path("/tmp"), "nccl_trace_rank_")  # of older torch
    yield from _names_in(Path(run.info.cwd), "")


def _names_in(folder: Path, prefix: str) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(MOST_NAMES), entries, strict=False):
                name = entry.name
                if name.startswith(prefix) if prefix else is_dump_name(name):
                    yield Path(entry.path)
    except OSError:
        return
