"""What is written once the command has ended: crashes, the kernel's account, the outcome.

In: how the root ended, its processes and the kernel's counters. Out: crashes.json, after.json, and
the outcome with its sentence. Promises: no longer than its time budget; whatever fails is named as
missing. The recorder and the guardian that took its place both end a run with `write_death`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rerail.platform.command_line import program_call, program_in_words
from rerail.platform.forked_task import ForkedTask
from rerail.recorder.kernel.counters import KernelCounters
from rerail.recorder.run.swallowed import fault_inside, swallowed_death
from rerail.recorder.run_record import RunRecord
from rerail.recorder.stalls.watch import Hang
from rerail.recorder.tree.endings import Ending
from rerail.records import BlackBox, Outcome, ProcessRecord
from rerail.store import AgentDir, RunWriter
from rerail.wording import duration_in_words

_ENDED_BY_SOMEBODY = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL")
_PROGRAMS = ("main", "rank", "daemon")
SYMBOLS_SECONDS = 0.7  # to name the functions of a crash; later readers can do it again at leisure


class Death(NamedTuple):
    """How the command ended, and after how long."""

    outcome: Outcome
    elapsed_seconds: float
    swallowed: str | None  # a descendant's death that the command itself outlived


def write_death(
    record: RunRecord,
    ending: Ending,
    processes: Sequence[ProcessRecord],
    kernel: KernelCounters,
    *,
    hang: Hang | None = None,
    was_stopped_for_it: bool = False,
    stopped_because: str | None = None,
) -> Death:
    """Everything about the end but the ending of run.json; the root is the first process."""
    writer = record.writer
    elapsed = writer.now()
    names = record.attempt("agent files", lambda: _names(writer)) or set()
    record.attempt("crashes", lambda: write_crashes(writer, writer.t0_ns, record.miss))
    swallowed = record.attempt(
        "deaths inside the command", lambda: _swallowed_death(writer, processes[1:])
    )
    record.attempt("agent files", lambda: remove_unused(writer.agent_dir))
    record.attempt(
        "agent files", lambda: writer.bring_agent_files_home(sorted(names - _names(writer)))
    )
    record.attempt("masking of agent files", writer.mask_agent_files)
    after = kernel.finish(processes)
    if after is not None:
        writer.write_json("after.json", after)
    outcome = outcome_of(
        ending,
        elapsed,
        processes,
        swallowed,
        hang=hang,
        was_stopped_for_it=was_stopped_for_it,
    )
    if stopped_because is not None:
        summary = f"stopped by rerail: {stopped_because}; it ended with {_how(ending)}"
        outcome = replace(outcome, summary=summary)
    return Death(outcome, elapsed, swallowed)


def _names(writer: RunWriter) -> set[str]:
    return {path.name for path in writer.agent_dir.glob("*")}


def _swallowed_death(writer: RunWriter, processes: Sequence[ProcessRecord]) -> str | None:
    from rerail.store import read_box

    def box_of(process: ProcessRecord) -> BlackBox | None:
        return read_box(writer.agent_dir / f"{process.key}.box", writer.t0_ns)

    return swallowed_death(processes, box_of)


class Writer(Protocol):
    path: Path

    @property
    def agent_dir(self) -> AgentDir: ...

    def write_json(self, name: str, value: Any) -> bool: ...


def write_crashes(writer: Writer, t0_ns: int, miss: Callable[[str, str], None]) -> int:
    """Turn what dying processes wrote into crashes.json; how many there were."""
    crashes = []
    for path in sorted(writer.agent_dir.glob("*.crash")):
        if path.stat().st_size == 0:
            path.unlink(missing_ok=True)  # prepared and never needed
            continue
        from rerail.store import read_crash

        try:
            crash = read_crash(path, t0_ns)
        except Exception as error:
            miss(path.name, f"{type(error).__name__}: {error}")
            continue
        if crash is None:
            path.unlink(missing_ok=True)
        else:
            crashes.append(crash)
    if not crashes:
        return 0
    writer.write_json("crashes.json", crashes)  # in case that naming functions takes too long

    def symbolise() -> None:
        from rerail.recorder.kernel.symbols import symbolise as name_functions

        writer.write_json("crashes.json", [name_functions(crash) for crash in crashes])

    task = ForkedTask.start("symbols", symbolise, SYMBOLS_SECONDS)
    while not task.is_over():
        time.sleep(0.005)
    if task.problem:
        miss("function names of the crash", task.problem)
    return len(crashes)


def remove_unused(agent_dir: AgentDir) -> None:
    """Stack files that nobody asked for stay empty, boxes for children may have been given back."""
    for path in agent_dir.glob("*.stacks"):
        if path.stat().st_size == 0:
            path.unlink()
    for path in agent_dir.glob("*.boxes"):
        from rerail.store import has_lent_box

        if not has_lent_box(path):
            path.unlink()


def outcome_of(
    ending: Ending,
    elapsed_seconds: float,
    processes: Sequence[ProcessRecord],
    swallowed: str | None,
    *,
    hang: Hang | None = None,
    was_stopped_for_it: bool = False,
) -> Outcome:
    """How the command ended, in one sentence and in fields; `swallowed` is a descendant's death."""
    after = f"after {duration_in_words(elapsed_seconds)}"
    role = processes[0].role if processes else None
    if not ending.is_known:
        return Outcome("unknown", f"the command ended {after}; nobody could tell how", process=role)
    if was_stopped_for_it:
        how = f"; it ended with {_how(ending)}"
        return Outcome(
            "hang",
            f"the command {_hung(hang)}and was stopped {after}{how}",
            signal=ending.signal,
            exit_code=ending.exit_code,
            process=role,
        )
    if ending.signal is not None:
        core = " (core dumped)" if ending.dumped_core else ""
        return Outcome(
            "signal",
            f"the command was killed by {ending.signal}{core} {after}{_interrupted(ending, hang)}",
            signal=ending.signal,
            process=role,
        )
    if ending.exit_code == 0:
        sentence = f"the command ended well {after}"
        if (left := left_running(processes[1:])) is not None:
            sentence += f"; {left}"
        if swallowed is not None:
            sentence = f"the command ended with exit code 0 {after}, although {swallowed}"
        return Outcome("ok", sentence, exit_code=0, process=role)
    sentence = f"the command ended with exit code {ending.exit_code} {after}"
    if (fault := fault_inside(processes[1:])) is not None:
        sentence += f"; {fault}"
    sentence += _interrupted(ending, hang)
    return Outcome("exit", sentence, exit_code=ending.exit_code, process=role)


def left_running(processes: Sequence[ProcessRecord]) -> str | None:
    """A Python program that the command started and did not wait for: its end is not recorded."""
    left = [p for p in processes if p.ended_t_seconds is None and p.role in _PROGRAMS]
    named = [
        f"{what} (pid {p.pid})"
        for p in left
        if program_call(p.command) and (what := program_in_words(p.command))
    ]
    if not named:
        return None
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return f"{named[0]}{more} still runs, and is no longer recorded"


def _hung(hang: Hang | None) -> str:
    if hang is None or not hang.hung_in:
        return "made no progress "
    return f"hung for {duration_in_words(hang.seconds)} {hang.hung_in}, "


def _interrupted(ending: Ending, hang: Hang | None) -> str:
    """A hang that somebody ended: how it ended does not say why."""
    is_from_outside = ending.signal in _ENDED_BY_SOMEBODY or ending.exit_code in (130, 143)
    if hang is None or not is_from_outside or not hang.hung_in:
        return ""
    return f"; it had stood still for {duration_in_words(hang.seconds)} {hang.hung_in}".rstrip()


def _how(ending: Ending) -> str:
    return ending.signal or f"exit code {ending.exit_code}"
