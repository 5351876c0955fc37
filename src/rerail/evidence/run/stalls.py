"""Who is stuck, where, and what does it wait for?

In: the stalls of a run with everybody's stacks, and the black boxes. Out: one `stall` observation
per process that was looked at, the one that the others wait for first, and the facts `where` and
`hang`. Which place tells most is decided in recorder/stalls/places.py, since the terminal says it
while the run still stands.

A stall that the run came out of is marked `resumed`. One that somebody ended is not: a program that
is interrupted prints where it was, and these words are not progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from rerail.evidence.run.crashes import is_bystander_library
from rerail.evidence.run.lost_workers import lost_worker
from rerail.evidence.run.material import RecordedRun
from rerail.platform.patterns import linear
from rerail.recorder import Place, find_places, most_workers, thread_called, who_is_who
from rerail.records import LockHolder, NativeFrame, Observation, Stall, ThreadStack
from rerail.wording import (
    file_name,
    lost_in_words,
    place_in_words,
    role_in_words,
    seconds_in_words,
    sentence,
)

MOST_PROCESSES = 12
LAST_WORDS_SECONDS = 10.0  # between the words of a program that is ended, and its end
_MOST_FUNCTIONS = 8
_OPENMP_LIBRARY = linear(r"gomp|libomp|iomp5")
_TIMED_OUT = linear(r"(?i)timed? ?out|queue\.Empty")
_ENDED_BY_SOMEBODY = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL")


def read_stalls(run: RecordedRun) -> list[Observation]:
    stall = telling_stall(run)
    if stall is None:
        return []
    boxes = {f"{box.pid}-{box.start_ticks}": box for box in run.boxes}
    who = who_is_who(run.processes, boxes)
    places = find_places(stall.stacks, who, most_workers(run.boxes))
    if not places:
        return [_without_stacks(run, stall)]
    places = _before_its_writer(places)
    return [_stuck(run, stall, place, places) for place in places[:MOST_PROCESSES]]


def _before_its_writer(places: list[Place]) -> list[Place]:
    """A child that cannot write since nobody reads is not stuck: its parent, who waits for it, is.

    `Popen(stdout=PIPE).wait()`: the pipe is full, and who should empty it stands in `wait`.
    """
    first = places[0]
    if first.waits is None or first.waits.kind != "pipe" or not _writes(first):
        return places
    words = f"child process {first.pid}"
    waiting = [place for place in places if place.waits and place.waits.words == words]
    return [*waiting, *(place for place in places if place not in waiting)]


def _writes(place: Place) -> bool:
    functions = [f.function for f in place.thread.native[:2]]
    functions += [f.function for f in place.thread.python[:1]]
    return any("write" in (name or "") for name in functions)


def telling_stall(run: RecordedRun) -> Stall | None:
    """The last one, which the run did not come out of.

    One that was taken early counts only if somebody ended the run in that silence, or if the
    program's own patience was over in it. Where rerail
    ended the run, what was seen after that tells how it ended: a program may say on SIGTERM that it
    got it, and be silent again until the SIGKILL.
    """
    for stall in reversed(_up_to_the_one_it_was_ended_for(run)):
        if not stall.is_early:
            return stall
        over = _over(run, stall)
        has_ended_it = _was_ended(run, stall) or _gave_up(run, stall) is not None
        if has_ended_it and not (over and over[1]):
            return stall
    return None


def _gave_up(run: RecordedRun, stall: Stall) -> float | None:
    """When the program itself ended the silence, and waited no longer: DataLoader(timeout=…)."""
    for box in run.boxes:
        raised = box.exception_t_seconds
        said = f"{box.exception_type}: {box.exception_text}"
        if raised is not None and raised >= stall.t_seconds and _TIMED_OUT.search(said):
            return raised
    return None


def _up_to_the_one_it_was_ended_for(run: RecordedRun) -> list[Stall]:
    if not run.was_stopped_for_a_stall:
        return run.stalls
    for number, stall in enumerate(run.stalls, 1):
        if stall.action == "kill" and stall.kind == "stuck" and not stall.is_early:
            return run.stalls[:number]
    return run.stalls


def hang_facts(observations: Sequence[Observation]) -> dict[str, Any]:
    """`where` and `hang`, of a run that did not come out of its stall."""
    stall = next((o for o in observations if o.kind == "stall"), None)
    if stall is None or stall.data["resumed"]:
        return {}
    data = stall.data
    hang = {
        "seconds": data["seconds"],
        "kind": data["kind"],
        "waits_for": data["waits_for"] if data["kind"] == "stuck" else None,
        "holder": data["holder"],
        "lost": data["lost"],
        "beside": data.get("beside"),
        "where": data["where"],
        "process": None if data["where"] else data.get("process"),
    }
    facts: dict[str, Any] = {"hang": {k: v for k, v in hang.items() if v is not None}}
    if data["where"] is not None:
        facts["where"] = data["where"]
    if data["rank"] is not None and not data["waits_on_process"]:
        others = [o.data for o in observations if o.kind == "stall" and o is not stall]
        if any(other["waits_kind"] == "collective" for other in others):
            facts["failed_first"] = f"rank {data['rank']}"
    return facts


def _stuck(run: RecordedRun, stall: Stall, place: Place, places: Sequence[Place]) -> Observation:
    thread = place.thread
    functions = _functions(thread)
    libraries = _libraries(thread)
    holder = stall.holders.get(place.key)
    box = run.box_of(run.by_key[place.key]) if place.key in run.by_key else None
    data = {
        "pid": place.pid,
        "role": place.who.role,
        "rank": place.who.rank,
        "functions": functions,
        "libraries": libraries,
        "waits_for": "a lock" if holder is not None else _waits_for(run, place, libraries, places),
        "waits_kind": place.waits.kind if place.waits else None,
        "waits_on_process": place.waits_on_process,
        "waits_for_work": place.waits_for_work,
        "has_loader": any(box.loaders for box in run.boxes) if run.boxes else None,
        "forked_after_threads": place.who.was_forked_beside_threads,
        "collective": box.collective if box else None,
        "in_openmp": any(_OPENMP_LIBRARY.search(name) for name in libraries[:2]),
        "where": _where(run, place),
        "process": place.process,
        "holder": _holder(run, holder),
        "lost": lost_worker(run, stall, place),
        "beside": None if holder is not None else _beside(run, stall, place, places),
        **_of_the_silence(run, stall),
    }
    return Observation(
        "stall", _sentence(stall, place, data), f"stack:{place.pid}:{thread.thread_id}", data
    )


def _of_the_silence(run: RecordedRun, stall: Stall) -> dict[str, Any]:
    over = _over(run, stall)
    end = over[0] if over else run.end_t_seconds
    return {
        "kind": stall.kind,
        "silent_seconds": stall.silent_seconds,
        "seconds": round(
            max(stall.silent_seconds, end - stall.t_seconds + stall.silent_seconds), 1
        ),
        "t_seconds": stall.t_seconds,
        "resumed": bool(over and over[1]),
    }


def _over(run: RecordedRun, stall: Stall) -> tuple[float, bool] | None:
    """When the silence ended, and whether the run went on by itself."""
    ended = [
        event.t_seconds
        for event in run.events_of("stall-over", "busy-over", "quiet-over")
        if event.t_seconds >= stall.t_seconds
    ]
    if not ended:
        return None
    began_to_end = min([*_signals(run, stall), run.end_t_seconds - LAST_WORDS_SECONDS])
    is_last_words = _was_ended(run, stall) and ended[0] >= began_to_end - 1.0
    gave_up = _gave_up(run, stall)
    is_last_words = is_last_words or (gave_up is not None and ended[0] >= gave_up - 1.0)
    return ended[0], not is_last_words and not run.was_stopped_for_a_stall


def _was_ended(run: RecordedRun, stall: Stall) -> bool:
    """By somebody, with a signal."""
    main = run.main
    died_of_one = main is not None and main.signal in _ENDED_BY_SOMEBODY
    return died_of_one or bool(_signals(run, stall))


def _signals(run: RecordedRun, stall: Stall) -> list[float]:
    return [
        event.t_seconds
        for event in run.events_of("signal-forwarded")
        if event.data.get("signal") in _ENDED_BY_SOMEBODY and event.t_seconds >= stall.t_seconds
    ]


def _where(run: RecordedRun, place: Place) -> dict[str, Any] | None:
    if not place.own:
        return None
    frame = place.own[0]
    named = frame.function.replace("<locals>.", "").partition(".<")[0]  # of a comprehension its own
    return {
        "file": _from_cwd(run, frame.file),
        "line": frame.line,
        "function": named,
        "process": place.process,
    }


def _beside(
    run: RecordedRun, stall: Stall, place: Place, places: Sequence[Place]
) -> dict[str, Any] | None:
    """The other one that waits: a thread of the process in a lock, or the process it works with."""
    kind = place.waits.kind if place.waits else ""
    if kind == "lock" and not place.waits_on_process:
        threads = [t for t in stall.stacks.get(place.key, ()) if t is not place.thread]
        each = [find_places({place.key: [t]}, {place.key: place.who})[0] for t in threads]
        others = [one for one in each if one.waits is not None and one.waits.kind == "lock"]
        called = [thread_called(one.thread, place.pid) for one in others]
    else:
        others = [p for p in places if _works_with(run, p, place)]
        called = ["the main process" if p.who.role == "main" else p.process for p in others]
    for other, who in zip(others, called, strict=True):
        where = _where(run, other)
        if where is not None and other.waits is not None and other.own[:1] != place.own[:1]:
            what = _waits_for(run, other, _libraries(other.thread), ())
            return {**where, "who": who, "waits_for": what}
    return None


def _works_with(run: RecordedRun, other: Place, place: Place) -> bool:
    """Whether it is the parent of the process that hangs, and waits for what that one gives."""
    process = run.by_key.get(place.key)
    is_parent = process is not None and process.parent_pid == other.pid
    kinds = ("pipe", "queue") if place.own else ("pipe", "queue", "loader", "child")
    return is_parent and other.waits is not None and other.waits.kind in kinds


def _holder(run: RecordedRun, holder: LockHolder | None) -> dict[str, Any] | None:
    if holder is None:
        return None
    return {
        "thread": holder.thread,
        "file": _from_cwd(run, holder.file),
        "line": holder.line,
        "function": holder.function.replace("<locals>.", ""),
    }


def _from_cwd(run: RecordedRun, file: str) -> str:
    path = PurePosixPath(file)
    try:
        return path.relative_to(run.info.cwd).as_posix()
    except ValueError:
        return file


def _functions(thread: ThreadStack) -> list[str]:
    native = [_shown(f) for f in thread.native[:3] if f.function]
    python = [f.function.replace("<locals>.", "") for f in thread.python[:_MOST_FUNCTIONS]]
    return list(dict.fromkeys([*native, *python]))


def _shown(frame: NativeFrame) -> str:
    return (frame.function or "").split("(")[0]


def _libraries(thread: ThreadStack) -> list[str]:
    """Innermost first, each once, without the C library and the loader."""
    names = [file_name(f.library) for f in thread.native if f.library]
    files = [file_name(f.file) for f in thread.python[:_MOST_FUNCTIONS] if f.file.endswith(".so")]
    kept = [name for name in (*names, *files) if not is_bystander_library(name)]
    return list(dict.fromkeys(kept))[:_MOST_FUNCTIONS]


_CHILD = linear(r"^child process (\d+)$")


def _waits_for(
    run: RecordedRun, place: Place, libraries: Sequence[str], places: Sequence[Place]
) -> str | None:
    if place.waits is not None and place.waits.kind == "collective":
        return place.waits.words
    if any(_OPENMP_LIBRARY.search(name) for name in libraries[:2]):
        return "the threads of its OpenMP pool"
    if place.waits is None:
        return place.thread.waits_for
    words = place.waits.words
    words = words.replace(f"{run.info.cwd}/", "", 1) if place.waits.kind == "open" else words
    child = _CHILD.match(words)
    other = next((p for p in places if child and p.pid == int(child[1])), None)
    if other is None or other.waits is None:
        return words
    its = f" in {place_in_words(there)}" if (there := _where(run, other)) else ""
    is_full = other.waits.kind == "pipe" and _writes(other)
    what = "somebody to read what it writes into a pipe" if is_full else other.waits.words
    return f"{words}, which waits{its} for {what}"


def _sentence(stall: Stall, place: Place, data: dict[str, Any]) -> str:
    silent = seconds_in_words(stall.silent_seconds)
    who = f"{role_in_words(place.who.role)} (pid {place.pid})"
    if stall.kind == "busy":
        text = f"no step and no output for {silent}, but it worked: {who} was in "
    else:
        text = f"no progress for {silent}: {who} was in "
    where = data["where"]
    functions = [f"{name}()" for name in data["functions"][:4]]
    text += f"{file_name(where['file'])}:{where['line']}, " if where else ""
    text += " ← ".join(functions) if functions else "native code"
    text += f" ({data['libraries'][0]})" if data["libraries"] else ""
    text += f", waiting for {data['waits_for']}" if _tells(data) else ""
    if (holder := data["holder"]) is not None:
        text += f" that {holder['thread']} holds in {file_name(holder['file'])}:{holder['line']}"
    if (lost := data["lost"]) is not None:
        text += f"; {lost_in_words(lost)} {seconds_in_words(lost['t_seconds'])} after the start"
    forked = place.who.was_forked_beside_threads
    text += "; it was forked from a process that had other threads" if forked else ""
    return sentence(text)


def _tells(data: dict[str, Any]) -> bool:
    return bool(data["waits_for"]) and data["kind"] == "stuck"


def _without_stacks(run: RecordedRun, stall: Stall) -> Observation:
    main = run.main
    return Observation(
        "stall",
        sentence(
            stall.summary or f"no progress for {seconds_in_words(stall.silent_seconds)} (no stacks)"
        ),
        f"vitals:{stall.t_seconds:.1f}",
        {
            "pid": main.pid if main else None,
            "role": main.role if main else None,
            "rank": None,
            "functions": [],
            "libraries": [],
            "waits_for": None,
            "waits_kind": None,
            "waits_on_process": False,
            "waits_for_work": False,
            "has_loader": None,
            "forked_after_threads": False,
            "collective": None,
            "in_openmp": False,
            "where": None,
            "holder": None,
            "lost": None,
            **_of_the_silence(run, stall),
        },
    )
