"""Checks an answer against the record that it was made from.

`contradictions(run, diagnosis)` gives one sentence for each thing that the headline or a fact says
and the record rules out. Tests call it for every run that they have recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rerail.diagnosis import Diagnosis
from rerail.evidence.run.material import RecordedRun

_STEP = re.compile(r"\bstep ([\d,]+)\b")
_FULL_BELOW = 0.5  # of a resource that is called full
_NOT_THERE = re.compile(r"^(?P<path>\S+) is not there\b|does not find (?P<other>\S+)")


def contradictions(run: RecordedRun, diagnosis: Diagnosis) -> list[str]:
    return [
        *_of_the_step(run, diagnosis),
        *_of_memory(diagnosis),
        *_of_what_is_full(run, diagnosis),
        *_of_files(run, diagnosis),
        *_of_signals(run, diagnosis),
    ]


def _of_the_step(run: RecordedRun, diagnosis: Diagnosis) -> Iterator[str]:
    facts = diagnosis.facts
    step, total = facts.get("last_step"), facts.get("total")
    if step is not None and total is not None and step > total:
        yield f"step {step} is beyond the total of {total}"
    named = _STEP.search(diagnosis.headline)
    if named is None:
        return
    said = int(named[1].replace(",", ""))
    nonfinite = facts.get("nonfinite_since_step")
    if said not in (step, nonfinite):
        yield f"the headline says step {said}, the facts say {step}"
    who = re.search(r"\(pid (\d+)\)", str((facts.get("where") or {}).get("process")))
    box = next((box for box in run.boxes if who and box.pid == int(who[1])), None)
    begun = box.started_t_seconds if box is not None else 0.0
    printed = run.printed if run.printed is not None and run.printed.step == said else None
    has_counted = box is None or box.optimizer_steps
    if printed is not None and not has_counted and printed.t_seconds < begun:
        yield f"step {said} was printed before its process began"


def _of_memory(diagnosis: Diagnosis) -> Iterator[str]:
    facts = diagnosis.facts
    peak, limit = facts.get("peak_rss_bytes"), facts.get("memory_limit_bytes")
    if peak is not None and limit is not None and peak > limit:
        yield f"the peak of {peak} bytes is above the limit of {limit}"


def _of_what_is_full(run: RecordedRun, diagnosis: Diagnosis) -> Iterator[str]:
    if "/dev/shm was full" not in diagnosis.headline:
        return
    shares = [
        row.machine["shm_used_bytes"] / row.machine["shm_total_bytes"]
        for row in run.vitals
        if row.machine.get("shm_total_bytes") and "shm_used_bytes" in row.machine
    ]
    said = str(diagnosis.facts.get("exception_text"))
    if shares and max(shares) < _FULL_BELOW and "No space left" not in said:
        yield f"/dev/shm is called full, and at most {max(shares):.0%} of it was used"


def _of_files(run: RecordedRun, diagnosis: Diagnosis) -> Iterator[str]:
    named = _NOT_THERE.search(diagnosis.headline)
    path = Path(run.info.cwd, named["path"] or named["other"]) if named else None
    end = run.info.started_unix + (run.info.elapsed_seconds or 0.0)
    is_there = path is not None and run.is_of_this_machine and path.is_file()
    if path is not None and is_there and path.stat().st_ctime < end:
        yield f"{path} is there"


def _of_signals(run: RecordedRun, diagnosis: Diagnosis) -> Iterator[str]:
    sent = [o.data for o in diagnosis.observations if o.kind == "outside-signal"]
    is_known = any(data.get("sender_pid") or data.get("sender_name") for data in sent)
    if re.search(r"\bsent SIG\w+ to\b", diagnosis.headline) and not is_known:
        yield "a sender is named, and none is on record"
    recorded = {str(data.get("signal")) for data in sent}
    recorded |= {process.signal for process in run.processes if process.signal}
    recorded |= {"SIGINT"} if any(p.exit_code == 130 for p in run.processes) else set()
    if "pressed Ctrl-C" in diagnosis.headline and "SIGINT" not in recorded:
        yield "Ctrl-C is named, and no SIGINT is on record"
