"""How each process of the tree ended.

In: a recorded run. Out: its outcome, one `death` observation per process that ended by a signal or
with a failing status, and one `outside-signal` per signal that came from elsewhere.

A death is not yet a failure: a loader worker that the ending main process terminates, or a helper
whose death the program shrugged off, is no cause. The fields let the diagnosis tell them apart:
`was_swallowed` (the main process ended well all the same), `was_training` (it did steps itself),
`went_on_seconds` (how long the main process lived after it) and `is_tidying` (ended by its own
parents' clean-up, or by rerail on a stall).
"""

from __future__ import annotations

import shlex
from collections.abc import Set

from rerail.evidence.first.before import failed_before
from rerail.evidence.run.crashes import raised_t_seconds, was_sent_by_another
from rerail.evidence.run.material import RecordedRun
from rerail.platform.command_line import program_name
from rerail.platform.patterns import linear
from rerail.records import (
    CRASH_SIGNALS,
    Crash,
    Observation,
    Outcome,
    OutcomeKind,
    ProcessRecord,
)
from rerail.wording import ending_in_words, process_in_words, seconds_in_words, sentence

# Past this many, the earliest and the signals are kept: 2,000 workers that exit 1 say one thing.
MOST_DEATHS = 40
_ENDED_BY_SIGINT = 130  # as a shell says it
TIMED_OUT = 124  # exit code of coreutils' timeout
_TIDYING_SIGNALS = {"SIGTERM", "SIGKILL", "SIGHUP", "SIGINT", "SIGPIPE"}
# A parent that dies takes its children along within this time: torch's workers look for their
# parent every five seconds, launchers send SIGTERM and wait.
_TIDYING_SECONDS = 6.0
_BRIEF_SECONDS = 0.2
_POOL_SECONDS = 60.0  # from the end of a pool's workers to that of a main process that is slow
_LOST_A_CHILD = linear(
    r"[Ww]orker|\b[Ss]ub-?process|\b[Pp]rocess|\b[Cc]hild|[Aa]ctor|[Kk]ernel|[Pp]eer|[Cc]onnection"
    r"|EOFError|Broken|[Tt]ime(?:d |-)?out|\b[Dd]ied|[Dd]ead|[Tt]erminat|[Kk]ill|[Ss]ignal|SIG[A-Z]"
    r"|exited|SystemExit|KeyboardInterrupt|[Mm]emory|Empty"
)


def read_outcome(run: RecordedRun) -> Outcome:
    """The recorder's word, or what can be said of a run that it did not see the end of."""
    if run.info.outcome is not None:
        return run.info.outcome
    if run.info.state == "running":
        return Outcome("unknown", "The run is still going.")
    main = run.main
    if main is not None and (main.exit_code is not None or main.signal is not None):
        kind: OutcomeKind = "signal" if main.signal else "ok" if main.exit_code == 0 else "exit"
        text = sentence(f"{process_in_words(main)} {_ending(main)}")
        return Outcome(kind, text, signal=main.signal, exit_code=main.exit_code, process="main")
    return Outcome("unknown", "The recorder was lost before the command ended.")


def read_deaths(run: RecordedRun) -> list[Observation]:
    dead = [p for p in run.processes if p.signal is not None or (p.exit_code or 0) != 0]
    with_box = {box.pid for box in run.boxes}
    dead = [process for process in dead if not _was_another_program(with_box, process)]
    dead += _vanished(run)
    dead.sort(key=lambda p: (p.ended_t_seconds is None, p.ended_t_seconds or 0.0))
    if len(dead) > MOST_DEATHS:
        main = run.main
        keep = sorted(
            range(len(dead)), key=lambda i: (dead[i] is not main, dead[i].signal is None, i)
        )[:MOST_DEATHS]
        dead = [dead[i] for i in sorted(keep)]
    return [_death(run, process) for process in dead]


def _was_another_program(with_box: Set[int], process: ProcessRecord) -> bool:
    """A `git` or `sh` that was gone before anybody saw its name: it stands as a worker that failed.

    A child that Python forks has a black box of its own, where its parent has one. One that is on
    its way to another program has none, and its exit status is its parent's business.
    """
    if process.role != "multiprocessing" or process.signal is not None:
        return False
    ended = process.ended_t_seconds
    if ended is None or ended - process.started_t_seconds > _BRIEF_SECONDS:
        return False
    return process.pid not in with_box and process.parent_pid in with_box


def _vanished(run: RecordedRun) -> list[ProcessRecord]:
    """Processes whose end nobody told but whose crash record did: their parent took the status."""
    crashed = {f"{crash.pid}-{crash.start_ticks}": crash for crash in run.crashes}
    found = []
    for process in run.processes:
        crash = crashed.get(process.key)
        if crash is not None and process.signal is None and process.exit_code is None:
            found.append(
                ProcessRecord(
                    **{
                        **vars(process),
                        "signal": crash.signal,
                        "ended_t_seconds": process.ended_t_seconds or crash.t_seconds,
                        "ending_source": "crash",
                    }
                )
            )
    return found


def _death(run: RecordedRun, process: ProcessRecord) -> Observation:
    main = run.main
    is_main = main is not None and process.key == main.key
    went_on = _went_on_seconds(process, main)
    main_ended_well = main is not None and main.exit_code == 0 and main.signal is None
    was_swallowed = not is_main and main_ended_well
    text = f"{process_in_words(process)} {_ending(process)}"
    if process.ended_t_seconds is not None:
        text += f", {seconds_in_words(process.ended_t_seconds)} after the start"
    if was_swallowed:
        text += "; the main process went on and exited 0"
        if went_on is not None and went_on >= 1:
            text = text.replace("went on and", f"went on for {seconds_in_words(went_on)} and")
    said_why = raised_t_seconds(run, process.pid) is not None and process.signal in CRASH_SIGNALS
    return Observation(
        kind="death",
        text=sentence(text),
        source=f"exit:{process.pid}",
        data={
            "pid": process.pid,
            "role": process.role,
            "name": process.name,
            "rank": run.rank_of(process),
            "signal": process.signal,
            "exit_code": process.exit_code,
            "source": process.ending_source,
            "dumped_core": process.dumped_core,
            "is_main": is_main,
            "was_swallowed": was_swallowed,
            "was_training": run.was_training(process),
            "went_on_seconds": went_on,
            "is_tidying": _is_tidying(run, process, went_on, is_main),
            "t_seconds": process.ended_t_seconds,
            **({"said_why": True} if said_why else {}),
        },
    )


def _ending(process: ProcessRecord) -> str:
    core = " and left a core file" if process.signal and process.dumped_core else ""
    return f"{ending_in_words(process.signal, process.exit_code)}{core}"


def _went_on_seconds(process: ProcessRecord, main: ProcessRecord | None) -> float | None:
    if main is None or process.ended_t_seconds is None or main.ended_t_seconds is None:
        return None
    return round(main.ended_t_seconds - process.ended_t_seconds, 3)


def _is_tidying(
    run: RecordedRun, process: ProcessRecord, went_on: float | None, is_main: bool
) -> bool:
    if run.was_ended_by_rerail(process) and process.signal in _TIDYING_SIGNALS:
        return True
    if is_main or went_on is None:
        return False
    if went_on <= 0:  # died with or after the main process
        return process.signal in _TIDYING_SIGNALS or process.exit_code is not None
    if is_killed_with_its_pool(run, process):
        return True
    return process.signal == "SIGTERM" and went_on <= _TIDYING_SECONDS


def is_killed_with_its_pool(run: RecordedRun, process: ProcessRecord) -> bool:
    """A pool of workers (joblib's, Ray's) ends them with SIGKILL once something else has failed.

    It was so if one of its processes had crashed before, or if the main process raised an exception
    that says nothing of a child, a peer or a connection that was lost: one that follows from a
    killed child does. An exception that holds a worker's traceback is that worker's.
    """
    main = run.main
    if process.signal != "SIGKILL" or main is None or process.key == main.key:
        return False
    went_on = _went_on_seconds(process, main)
    if went_on is None or went_on > _POOL_SECONDS:
        return False
    if crashed_before(run, process) or _is_killed_by_its_parent(run, process):
        return True
    box = next((box for box in run.boxes if box.pid == main.pid and box.exception_type), None)
    if box is None or main.exit_code in (0, None):
        return False
    before = failed_before(run, box)
    if before is not None and before.process is process:
        return False
    message = (box.exception_text or "").strip()
    if "Traceback (most recent call last)" in message:
        said = message.rstrip('"\n ').rpartition("\n")[2]
    else:
        first = message.partition("\n")[0]
        said = f"{box.exception_type}: {first}"
    return not _LOST_A_CHILD.search(said)


def _is_killed_by_its_parent(run: RecordedRun, process: ProcessRecord) -> bool:
    """`subprocess.run(…, timeout=3)` kills the child, and raises then."""
    parents = [box for box in run.boxes if box.pid == process.parent_pid]
    return any((box.exception_type or "").endswith("TimeoutExpired") for box in parents)


def crashed_before(run: RecordedRun, process: ProcessRecord) -> ProcessRecord | None:
    """Whoever had crashed by itself when this process was killed."""
    ended = process.ended_t_seconds or 0.0
    crashed = [p for p in run.processes if p.signal in CRASH_SIGNALS]
    return next((p for p in crashed if p.ended_t_seconds and p.ended_t_seconds < ended), None)


def read_outside_signals(run: RecordedRun) -> list[Observation]:
    """Signals that the recorder passed on, or that a process says it was sent."""
    found: dict[tuple[str, int | None], Observation] = {}
    for event in run.events_of("signal-forwarded"):
        name = str(event.data.get("signal", ""))
        sender_pid = event.data.get("sender_pid")
        sender_name = event.data.get("sender_name")
        if name in ("SIGWINCH", "SIGCONT", "SIGTSTP") or (name, sender_pid) in found:
            continue
        who = f" by pid {sender_pid}" if sender_pid else ""
        who += f" ({sender_name})" if sender_name else ""
        found[(name, sender_pid)] = Observation(
            kind="outside-signal",
            text=f"{name} was sent from outside{who}, {seconds_in_words(event.t_seconds)} "
            "after the start.",
            source=f"exit:{run.info.root_pid or 0}",
            data={
                "signal": name,
                "sender_pid": sender_pid,
                "sender_name": sender_name,
                "t_seconds": event.t_seconds,
            },
        )
    for process in run.processes:
        if process.exit_code == TIMED_OUT and _is_timeout(process):
            found[("SIGTERM", process.pid)] = _ended_by_timeout(process)
    for crash in filter(was_sent_by_another, run.crashes):
        found[(crash.signal, crash.sender_pid)] = _sent_crash_signal(run, crash)
    known = {name for name, _ in found}
    main = run.main
    # Nothing inside a training ends itself by these without a crash record: someone sent them.
    if (
        main is not None
        and main.signal in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
        and main.signal not in known
        and not run.was_stopped_for_a_stall
    ):
        found[(main.signal, None)] = Observation(
            kind="outside-signal",
            text=f"The main process (pid {main.pid}) was ended by {main.signal}, sent from outside "
            "the program; no error came before it.",
            source=f"exit:{main.pid}",
            data={"signal": main.signal, "sender_pid": None, "sender_name": None},
        )
    return list(found.values())


def read_unsent_interrupts(run: RecordedRun) -> list[Observation]:
    """Return that nobody pressed Ctrl-C, if a process was interrupted without any SIGINT on record.

    A notebook's runner interrupts its kernel by itself. On a terminal the keys reach every process.
    """
    interrupted = [b for b in run.boxes if "KeyboardInterrupt" in (b.exception_type or "")]
    sent = any(event.data.get("signal") == "SIGINT" for event in run.events_of("signal-forwarded"))
    died = any(p.signal == "SIGINT" or p.exit_code == _ENDED_BY_SIGINT for p in run.processes)
    if not interrupted or sent or died or run.info.has_terminal:
        return []
    text = "A process was interrupted, but no SIGINT from outside is on record."
    return [Observation("no-sigint", text, f"box:{interrupted[0].pid}", {})]


def _sent_crash_signal(run: RecordedRun, crash: Crash) -> Observation:
    """Return who sent a signal that otherwise means a crash; the kernel wrote the sender down."""
    process = next((p for p in run.processes if p.key == f"{crash.pid}-{crash.start_ticks}"), None)
    victim = process_in_words(process) if process else f"a process (pid {crash.pid})"
    sender = next((p for p in run.processes if p.pid == crash.sender_pid), None)
    who = (
        f"process {crash.sender_pid}" if crash.sender_pid else "a process that cannot be seen here"
    )
    who += f" ({sender.name})" if sender else ""
    return Observation(
        kind="outside-signal",
        text=sentence(f"{crash.signal} was sent to {victim} by {who}; its own code did not crash"),
        source=f"exit:{crash.pid}",
        data={
            "signal": crash.signal,
            "sender_pid": crash.sender_pid or None,
            "sender_name": sender.name if sender else None,
            "victim": victim,
            "t_seconds": crash.t_seconds,
        },
    )


def _is_timeout(process: ProcessRecord) -> bool:
    return bool(process.command) and program_name(process.command[0]) == "timeout"


def _ended_by_timeout(process: ProcessRecord) -> Observation:
    """`timeout 10 python train.py` has a status of its own for a command that it had to end."""
    typed = shlex.join(process.command[:2])
    return Observation(
        kind="outside-signal",
        text=f"`{typed} …` ended the command: its time was over (exit code {TIMED_OUT}).",
        source=f"exit:{process.pid}",
        data={
            "signal": "SIGTERM",
            "sender_pid": process.pid,
            "sender_name": "timeout",
            "time_limit": typed,
            "t_seconds": process.ended_t_seconds,
        },
    )
