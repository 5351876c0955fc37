"""One rank of a run as text: how it ended, how far it came, its last collectives and its output.

In: a recorded run, a rank, the run's output. Out: lines of at most 80 columns where the text allows
it; and the same as a document. Its output is what launchers mark as its own in the merged output,
and the files that only this rank has written to. Nothing is said of a rank that is not in the
record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from rerail.evidence import RankLog, RankStory, RecordedRun, rank_logs, rank_stories
from rerail.platform.os_text import printable
from rerail.platform.patterns import linear
from rerail.records import CollectiveCall
from rerail.store import OutputReader
from rerail.wording import bytes_in_words, file_name, seconds_in_words

MOST_CALLS = 6
MOST_LINES = 20
# "[rank1]: " of torch, "[default1]:" of torchrun --tee, "[1]:" of others, "1: " of srun --label,
# "[1,1]<stdout>:" of mpirun --tag-output (its job, then the rank).
_MARK = linear(
    r"^(?:\[(?:rank|default)?(\d{1,7})\]: ?|(\d{1,7}): "
    r"|\[[^\]\s]{1,40},(\d{1,7})\]<std(?:out|err)>: ?)"
)


def story_of(run: RecordedRun, rank: int) -> RankStory | None:
    return next((s for s in rank_stories(run) if s.rank == rank), None)


def ranks_on_record(run: RecordedRun) -> list[int]:
    return [story.rank for story in rank_stories(run)]


def logs_of(run: RecordedRun, story: RankStory) -> list[RankLog]:
    return rank_logs(run, story.rank)


def rank_lines(story: RankStory, output: OutputReader, logs: Sequence[RankLog] = ()) -> list[str]:
    lines = [f"{_title(story)}: {_ending(story)}"]
    box = story.box
    if box is not None:
        spent = [
            f"{seconds_in_words(seconds)} {where}"
            for seconds, where in (
                (box.collective_seconds, "in collectives"),
                (box.backward_seconds, "in backward"),
                (box.data_wait_seconds, "waiting for data"),
            )
            if seconds >= 0.001
        ]
        lines.append(f"  {box.optimizer_steps:,} steps" + "".join(f", {each}" for each in spent))
    if story.calls:
        lines.append("  last collectives")
        lines += [f"    {_call(call)}" for call in story.calls[-MOST_CALLS:]]
    printed = own_output(output, story.rank)
    if printed:
        lines.append("  last lines of its output")
        lines += [f"    output:{number}  {text}" for number, text in printed]
    for log in logs:
        lines.append(f"  its log {log.path}")
        # What is marked in the output as well need not be shown twice.
        lines += [f"    {text}" for text in log.lines if not printed]
    if not printed and not logs and not has_marks(output):
        lines.append("  its output is not told apart from the others': `torchrun --tee 3`,")
        lines.append("  `mpirun --tag-output` and `srun --label` mark whose each line is")
    return [printable(line) for line in lines]


def rank_document(
    story: RankStory, output: OutputReader, logs: Sequence[RankLog] = ()
) -> dict[str, Any]:
    box = story.box
    return {
        "schema": 1,
        "rank": story.rank,
        "world_size": story.process.world_size,
        "node": story.process.node,
        "pid": story.process.pid,
        "ending": _ending(story),
        "steps": box.optimizer_steps if box else None,
        "collective_seconds": box.collective_seconds if box else None,
        "backward_seconds": box.backward_seconds if box else None,
        "data_wait_seconds": box.data_wait_seconds if box else None,
        "error_file": box.error_file if box else None,
        "collectives": [_call_document(call) for call in story.calls],
        "output": [
            {"line": number, "text": text} for number, text in own_output(output, story.rank)
        ],
        "logs": [{"path": log.path, "lines": log.lines} for log in logs],
    }


def own_output(lines: Iterable[Any], rank: int) -> list[tuple[int, str]]:
    """The last lines that are marked as this rank's, with their numbers, without the mark."""
    found: deque[tuple[int, str]] = deque(maxlen=MOST_LINES)
    wanted = str(rank)
    for line in lines:
        mark = _MARK.search(line.text[:64].decode("latin-1"))  # a letter per byte
        if mark is not None and wanted in mark.groups():
            text = line.text[mark.end() :].decode("utf-8", "replace").rstrip()
            if text:
                found.append((line.number, text[:300]))
    return list(found)


def has_marks(lines: Iterable[Any]) -> bool:
    """Whether any line is marked as some rank's."""
    return any(_MARK.search(line.text[:64].decode("latin-1")) for line in lines)


def _title(story: RankStory) -> str:
    process = story.process
    of = f" of {process.world_size}" if process.world_size else ""
    node = f" on node {process.node}" if process.node is not None else ""
    return f"rank {story.rank}{of}{node} (pid {process.pid})"


def _ending(story: RankStory) -> str:
    if story.failed_t_seconds is not None:
        return f"{story.reason}, {seconds_in_words(story.failed_t_seconds)} after the start"
    if story.end_t_seconds is None:
        return "no end on record: it still runs, or nobody saw it end"
    ended = seconds_in_words(story.end_t_seconds)
    return f"ended with exit code {story.process.exit_code} {ended} after the start"


def _call(call: CollectiveCall) -> str:
    size = f" {'x'.join(map(str, call.shape))}" if call.shape else ""
    size += f" ({bytes_in_words(call.size_bytes)})" if call.size_bytes else ""
    if call.left_t_seconds is None:
        lasted = "not left"
    else:
        lasted = seconds_in_words(max(call.left_t_seconds - call.entered_t_seconds, 0.0))
        lasted += ", raised" if call.has_raised else ""
    where = f"  {file_name(call.place.file)}:{call.place.line}" if call.place else ""
    return f"#{call.sequence:,} {call.op}{size}  at {call.entered_t_seconds:.2f} s: {lasted}{where}"


def _call_document(call: CollectiveCall) -> dict[str, Any]:
    place = call.place
    return {
        "sequence": call.sequence,
        "op": call.op,
        "group": call.group,
        "entered_t_seconds": call.entered_t_seconds,
        "left_t_seconds": call.left_t_seconds,
        "has_raised": call.has_raised,
        "size_bytes": call.size_bytes,
        "shape": call.shape,
        "place": {"file": place.file, "line": place.line, "function": place.function}
        if place
        else None,
    }
