"""Everything that can be observed of a recorded run.

In: a run folder, and earlier runs of the same command. Out: `Evidence`. Promises: a reader that
trips over a damaged record costs its own observations only, and the evidence says so in a `missing`
observation; the text of the output is read by the same readers as any log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rerail.evidence.first.boxes import read_failed_first
from rerail.evidence.run.census import read_copied_growth, read_leaks
from rerail.evidence.run.claims import facts_of_run
from rerail.evidence.run.comparing import with_printed_reasons, without_echoes
from rerail.evidence.run.crashes import read_crashes
from rerail.evidence.run.exceptions import (
    read_exceptions,
    read_words_of_exceptions,
)
from rerail.evidence.run.exits import (
    read_deaths,
    read_outcome,
    read_outside_signals,
    read_unsent_interrupts,
)
from rerail.evidence.run.flight_evidence import read_flight_recorder
from rerail.evidence.run.history import PastEnd, past_ends, read_history
from rerail.evidence.run.libraries import read_libraries
from rerail.evidence.run.limits import read_limits
from rerail.evidence.run.log_files import with_log_files
from rerail.evidence.run.material import RecordedRun, read_material
from rerail.evidence.run.memory import read_memory_growth, read_near_memory_limits
from rerail.evidence.run.named_files import read_named_files
from rerail.evidence.run.oom import read_oom_kills
from rerail.evidence.run.output import observe_output
from rerail.evidence.run.progress import (
    read_loaded_files,
    read_progress,
    read_settings,
)
from rerail.evidence.run.ray_driver import with_worker_of_ray
from rerail.evidence.run.ray_worker import outcome_by_ray, read_ray, with_ray_words
from rerail.evidence.run.stalls import read_stalls
from rerail.evidence.run.unrecorded import read_unrecorded_crashes
from rerail.evidence.text.observing import TextEvidence
from rerail.platform.deadline import Deadline, no_deadline
from rerail.records import Evidence, Observation
from rerail.store import RunFolder
from rerail.wording import sentence

Reader = Callable[[RecordedRun], list[Observation]]

# In the order in which a person would want to hear them.
READERS: tuple[Reader, ...] = (
    read_deaths,
    read_outside_signals,
    read_unsent_interrupts,
    read_ray,
    read_oom_kills,
    read_crashes,
    read_unrecorded_crashes,
    read_stalls,
    read_failed_first,
    read_exceptions,
    read_named_files,
    read_progress,
    read_near_memory_limits,
    read_memory_growth,
    read_copied_growth,
    read_leaks,
    read_limits,
    read_libraries,
    read_settings,
    read_loaded_files,
)


def collect_run(
    folder: RunFolder, history: Sequence[RunFolder] = (), deadline: Deadline | None = None
) -> Evidence:
    """All observations of one run; `history`: earlier runs of its fingerprint."""
    deadline = deadline or no_deadline()
    run = read_material(folder)
    printed = with_ray_words(run, observe_output(folder, deadline), deadline)
    text = with_log_files(run, folder, printed, deadline)
    evidence = collect_recorded(run, past_ends(history, deadline), text, deadline)
    return with_worker_of_ray(
        folder, evidence, lambda worker: collect_run(worker, deadline=deadline)
    )


def collect_recorded(
    run: RecordedRun,
    earlier: Sequence[PastEnd] = (),
    text: TextEvidence | None = None,
    deadline: Deadline | None = None,
) -> Evidence:
    """The same from records in hand; `text` is what the text readers saw in the output."""
    text = text or TextEvidence()
    deadline = deadline or no_deadline()
    observations: list[Observation] = []
    for reader in READERS:
        if not deadline.skips(_name_of(reader)):
            observations += _read(reader, run)
    if all(o.kind != "failed-first" for o in observations):
        observations += _read(read_flight_recorder, run)
    observations = with_printed_reasons(observations, text.observations)
    observations += read_history(run, earlier)
    told, raised = read_words_of_exceptions(run, observations, deadline, text.observations)
    observations += told
    first = next((o for o in observations if o.kind == "failed-first"), None)
    observations += without_echoes(run, first, text.observations)
    observations += [_missing(run, what, why) for what, why in run.missing]
    return Evidence(
        outcome=outcome_by_ray(run) or read_outcome(run),
        observations=observations,
        facts=facts_of_run(run, observations, raised, text),
        origin="run",
        incomplete=deadline.sentence,
    )


def _name_of(reader: Reader) -> str:
    return reader.__name__.removeprefix("read_").replace("_", " ")


def _read(reader: Reader, run: RecordedRun) -> list[Observation]:
    try:
        return reader(run)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError) as error:
        # A folder that was damaged or written by a newer rerail may hold what no reader expects.
        return [_missing(run, _name_of(reader), f"{type(error).__name__}: {error}")]


def _missing(run: RecordedRun, what: str, why: str) -> Observation:
    return Observation(
        "missing",
        sentence(f"the record lacks {what}: {why}"),
        f"exit:{run.info.root_pid or 0}",
        {"what": what, "why": why},
    )
