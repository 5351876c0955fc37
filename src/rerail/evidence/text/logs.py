"""Everything that can be observed in the text of logs.

In: the paths of log files (or numbered lines of one text, such as a run's output). Out: `Evidence`
(or observations) in the words of docs/evidence.md. Several files given together are ranks or nodes
of one job; they are read one after the other, and only what was observed is kept of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from rerail.catalogue import Catalogue, load_catalogue
from rerail.evidence.first.lines import (
    find_first,
)
from rerail.evidence.text.exits import find_exits
from rerail.evidence.text.harmless import is_context, is_quoted_code
from rerail.evidence.text.last_words import last_words
from rerail.evidence.text.lines import Line, to_lines
from rerail.evidence.text.observing import TextEvidence, TextObserver, first_observation
from rerail.evidence.text.outcomes import outcome_of
from rerail.evidence.text.progress import (
    ProgressPoint,
    find_finish,
    find_progress,
    last_begin,
)
from rerail.evidence.text.rank_jobs import SEEN_TOGETHER, collect_job
from rerail.evidence.text.rank_streams import FEWEST, split_streams
from rerail.evidence.text.rank_survey import OpenableLog, TextLog
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.scan import Excerpt, read_excerpt
from rerail.evidence.text.signatures import SYMPTOM, SignatureMatch, match_signatures
from rerail.evidence.text.teardown import is_of_teardown, teardown_begins
from rerail.evidence.text.tracebacks import (
    TracebackText,
    find_tracebacks,
    with_those_it_quotes,
)
from rerail.evidence.text.wrapped import unwrapped, without_columns
from rerail.platform.deadline import Deadline, no_deadline
from rerail.platform.patterns import linear
from rerail.records import Evidence, Observation

TELLING = 3.5  # weight from which a signature's words are searched for all over a large log
SHORTEST_WORD = 6
FEW_FILES = 16
FEW_SECONDS = 10.0  # for each log that matters, of many that were looked at
MANY_SHARE = 8  # of many files, each is read by an eighth of what one alone would be
_RANK_IN_NAME = linear(r"(?:rank|worker|node|task|proc|gpu|local)[-_.]?(\d+)", re.IGNORECASE)


# The name in the sources, the lines that were looked at, and what was observed in them.
Listener = Callable[[str, list[Line], list[Observation]], None]


def search_words(catalogue: Catalogue) -> list[str]:
    """The words by which telling lines of a large log are found.

    Those of signatures that say something by themselves; a hint is worth reading only near the
    end, which is read whole.
    """
    words = {"traceback (most recent call last)", "exit code", "exitcode"}
    for cause in catalogue:
        for signature in cause.signatures:
            if signature.where == "line" and signature.weight >= TELLING:
                words.update(word for word in signature.literals if len(word) >= SHORTEST_WORD)
    return sorted(words)


def collect_logs(
    paths: Sequence[Path], deadline: Deadline | None = None, listener: Listener | None = None
) -> Evidence:
    """The files together, as ranks or nodes of one job.

    The listener is shown the lines of each, of which only what was observed is kept.
    """
    deadline = deadline or no_deadline()
    catalogue = load_catalogue()
    words = search_words(catalogue)
    if len(paths) > 1 and (job := _job(paths, catalogue, deadline, listener)) is not None:
        return job
    texts: list[TextEvidence] = []
    share = 1 if len(paths) <= FEW_FILES else MANY_SHARE
    for at, path in enumerate(paths):
        if texts and deadline.skips(f"{path.name} and the files after it"):
            break
        excerpt = read_excerpt(path, words, share, deadline)
        label = "output" if len(paths) == 1 else path.name
        who = "" if len(paths) == 1 else _who(path)
        if len(paths) == 1 and (job := _merged(excerpt, catalogue, deadline)) is not None:
            if listener is not None:
                listener(label, _lines(excerpt, at), job.observations)
            return job
        lines = _lines(excerpt, at)
        texts.append(_observe(lines, catalogue, label, who, deadline))
        if listener is not None:
            listener(label, lines, texts[-1].observations)
    return replace(_together(texts), incomplete=deadline.sentence)


def _job(
    paths: Sequence[Path], catalogue: Catalogue, deadline: Deadline, listener: Listener | None
) -> Evidence | None:
    """Of a job of many ranks: a quick look at every log, and the few that matter read whole."""
    words = search_words(catalogue)
    left_out: list[str] = []

    def read(at: int, who: str) -> TextEvidence:
        path = paths[at]
        # The look at all of them may have used up the time; the few are read all the same.
        few = Deadline(max(FEW_SECONDS, deadline.seconds_left))
        lines = _lines(read_excerpt(path, words, 1, few), at)
        streams = {line.stream for line in lines if line.stream}
        if len(streams) >= FEWEST and who in streams:  # several ranks wrote into it
            lines = [line for line in lines if line.stream in ("", who)]
        found = _observe(lines, catalogue, path.name, who, few)
        left_out.append(few.sentence)
        if listener is not None:
            listener(path.name, lines, found.observations)
        return found

    accepts = None if len(paths) > FEW_FILES else SEEN_TOGETHER
    # A path has the `name` and the `open` of a log.
    evidence = collect_job(cast("Sequence[OpenableLog]", paths), deadline, read, accepts)
    if evidence is None:
        return None
    return replace(evidence, incomplete=" ".join(filter(None, (deadline.sentence, *left_out))))


def _merged(excerpt: Excerpt, catalogue: Catalogue, deadline: Deadline) -> Evidence | None:
    """The same of one log into which several ranks wrote, each line with its rank before it."""
    streams = split_streams(excerpt.lines)
    if streams is None:
        return None
    logs = [TextLog(f"rank_{rank}.log", lines) for rank, lines in streams.of_ranks.items()]
    logs.append(TextLog("launcher", streams.launcher))

    def read(at: int, who: str) -> TextEvidence:
        return _observe(list(to_lines(logs[at].lines)), catalogue, "output", who, deadline)

    return collect_job(logs, deadline, read, SEEN_TOGETHER)


def observe_text(
    numbered: Iterable[tuple[int, str]],
    deadline: Deadline | None = None,
    who: str = "",
    label: str = "output",
) -> TextEvidence:
    """The same for lines in hand, such as a run's output: (line number, text without newline).

    `label`: what observations say as their source, before the line.
    """
    lines = list(to_lines(numbered))
    return _observe(lines, load_catalogue(), label, who, deadline or no_deadline())


def observe_exception(
    raised: TracebackText, words: list[Line], deadline: Deadline, who: str = ""
) -> TextEvidence:
    """What the catalogue says of an exception that a process recorded; `words`: its message."""
    catalogue = load_catalogue()
    tracebacks = with_those_it_quotes(raised, words)
    quoted = {(found.file, line) for found in tracebacks for line in found.source_lines}
    reader = TextObserver("exception", who, Resumption((), ()), catalogue.echoes)
    matches = match_signatures(catalogue, words, tracebacks, deadline)
    causes_at = reader.matches(_of_causes(matches, quoted))
    reader.raised(reader.tracebacks(tracebacks, causes_at))
    return reader.found


def _lines(excerpt: Excerpt, file: int) -> list[Line]:
    return list(to_lines(excerpt.lines, file))


def rank_in_name(path: Path) -> str:
    """ "rank 3" of rank3.log, worker-3.out and the like; "" where the name has none."""
    found = _RANK_IN_NAME.search(path.name)
    return f"rank {int(found.group(1))}" if found else ""


def _who(path: Path) -> str:
    return rank_in_name(path) or path.name


def _together(texts: list[TextEvidence]) -> Evidence:
    if len(texts) == 1:
        only = texts[0]
        return Evidence(only.outcome, only.observations, only.facts, "logs")
    observations = [o for text in texts for o in text.observations if o.kind != "failed-first"]
    troubles = [
        replace(trouble, log=at) for at, text in enumerate(texts) for trouble in text.troubles
    ]
    first = find_first(troubles)
    facts: dict[str, Any] = {}
    if first:  # what it said goes before what the others said
        texts = sorted(texts, key=lambda text: all(t.who != first.who for t in text.troubles))
    for text in texts:
        facts.update({key: value for key, value in text.facts.items() if key not in facts})
    if first:
        observations.append(first_observation(first, "output", first.position))
        facts["failed_first"] = first.who
        facts["echoes"] = list(first.others)
    worst = next((t.outcome for t in texts if t.outcome.kind not in ("ok", "unknown")), None)
    return Evidence(worst or texts[0].outcome, observations, facts, "logs")


def _context(lines: Sequence[Line], tracebacks: Sequence[TracebackText]) -> frozenset[int]:
    """The numbers of lines at level INFO or below that are no part of an exception."""
    informing = {line.number for line in lines if is_context(line.text)}
    if not informing:
        return frozenset()
    raised = [t for t in tracebacks if t.is_whole and t.first_line not in informing]
    own = {number for found in raised for number in (found.last_line, *found.message_lines)}
    return frozenset(informing - own)


@dataclass(frozen=True)
class _Structure:
    """What the finders found in one text, before anything is made of it."""

    lines: list[Line]
    tracebacks: list[TracebackText]
    quoted: set[tuple[int, int]]  # file and number of lines that tracebacks quote
    points: list[ProgressPoint]
    finishes: list[Line]
    resumption: Resumption
    words: TracebackText | None  # what the end says as an error, where nothing was raised
    context: frozenset[int]  # numbers of lines that only inform
    is_raised: bool  # an exception that nothing caught stands there with its traceback


def _structure(lines: list[Line]) -> _Structure:
    tracebacks = find_tracebacks(lines)
    quoted = {(found.file, line) for found in tracebacks for line in found.source_lines}
    points, finishes = find_progress(lines, quoted), find_finish(lines)
    last_line = next((line.number for line in reversed(lines) if line.text.strip()), -1)
    resumption = Resumption(points, finishes, last_line, last_begin(lines))
    raised = [t for t in tracebacks if t.type and not t.is_ignored]
    lasting = [t for t in raised if not resumption.after(t.last_line, is_fatal=True)]
    words = None if lasting else last_words(lines, resumption, quoted)
    context = _context(lines, tracebacks)
    is_raised = any(t.is_whole and t.last_line not in context for t in lasting)
    return _Structure(
        lines, tracebacks, quoted, points, finishes, resumption, words, context, is_raised
    )


def _observe(
    lines: list[Line], catalogue: Catalogue, label: str, who: str, deadline: Deadline
) -> TextEvidence:
    text = _structure(unwrapped(without_columns(lines)))
    lines, tracebacks = text.lines, text.tracebacks
    exits = find_exits(lines)
    spoken = [*tracebacks, text.words] if text.words else tracebacks
    torn_down = teardown_begins(lines, tracebacks, text.resumption)
    matches = [
        match
        for match in match_signatures(catalogue, lines, spoken, deadline)
        if not is_of_teardown(match.line, match.text, torn_down)
    ]
    if text.is_raised:  # what is only information has not ended it
        exits = [found for found in exits if found.line.number not in text.context]
        tracebacks = [found for found in tracebacks if found.last_line not in text.context]
    reader = TextObserver(
        label,
        who,
        text.resumption,
        catalogue.echoes,
        text.context,
        is_raised=text.is_raised,
        words=text.words,
    )
    causes_at = reader.matches(_of_causes(matches, text.quoted))
    fatal = reader.tracebacks(tracebacks, causes_at)
    reader.symptoms([m for m in matches if m.cause.startswith(SYMPTOM)], lines, spoken)
    reader.last_words()
    reader.exits([e for e in exits if not is_of_teardown(e.line.number, e.line.text, torn_down)])
    reader.progress(text.points, text.finishes)
    stood_at = None
    if not deadline.skips(f"native stacks and memory in {label}"):
        stood_at = reader.native(lines)
        reader.memory(lines)
    reader.ranks(lines)
    reader.raised(fatal, stood_at)
    found = reader.found
    found.outcome = outcome_of(exits, tracebacks, bool(text.finishes), text.resumption)
    return found


def _of_causes(
    matches: Sequence[SignatureMatch], quoted: Container[tuple[int, int]]
) -> list[SignatureMatch]:
    return [
        match
        for match in matches
        if not match.cause.startswith(SYMPTOM) and not is_quoted_code(match, quoted)
    ]
