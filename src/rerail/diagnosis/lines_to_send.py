"""The telling lines of a log or a run, masked, numbered, and short enough to be sent to a model.

In: the lines that were looked at and what was observed in them, or a recorded run; then the
diagnosis. Out: `SentLine`s in the order of the log, and how it ended, in one sentence. Promises:
masked as for `rerail pack`, secrets and names, before anything is cut; every text is one line of
printable characters, so that no line of a log can pass for another one; together they are no
larger than asked.

First all lines are learnt from, then those to be sent are masked: a password that an early line
announces is masked in the last one as well.
"""

from __future__ import annotations

import json
import os
import platform
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rerail.diagnosis.result import Diagnosis
from rerail.evidence import Line, learn_records, read_material
from rerail.platform.terminal_text import last_drawn
from rerail.privacy import Redactor
from rerail.records import Observation
from rerail.store import RunFolder

LONGEST = 400  # characters of a line
MOST_OBSERVATIONS = 40
_AROUND = 3  # lines before and after one that was observed
_END = 30  # the last lines of each text, as good as those around an observation
_FAR_END = 120
_LEARNT_OF_RUN = 5000  # last lines of a run's output; the recorder has masked all of it before
_OBSERVED, _NEAR, _FAR = range(3)


@dataclass(frozen=True)
class SentLine:
    """A line as it was sent. Its source is where it stands here, and is not sent."""

    number: int
    text: str
    source: str


@dataclass(frozen=True)
class _Picked:
    rank: int
    from_end: int  # how many lines come after it: of what ranks alike, the last is sent first
    position: int  # in all that was read
    text: str
    source: str


class LinesToSend:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets`: what is to be masked although it stands in no log and no environment."""
        self._redactor = Redactor()
        for secret in secrets:
            self._redactor.known.learn(secret, "key")
        self._picked: list[_Picked] = []
        self._position = 0
        self._learn_where_we_are()

    def _learn_where_we_are(self) -> None:
        """A log is mostly explained where it was written: by its user, on its machine."""
        environ = dict(os.environ)
        self._redactor.learn_environment(environ)
        self._redactor.names.add_environment(environ)
        self._redactor.names.add_host(platform.node())

    def read(self, label: str, lines: list[Line], observations: Sequence[Observation]) -> None:
        """The lines of one log: learn from all of them, and pick those that may be sent."""
        texts = [one_line(line.text) for line in lines]
        for line in lines:
            if line.stream and not line.stream.startswith(("rank ", "pid ")):
                self._redactor.names.add_host(line.stream)
        whole = "\n".join(texts)
        self._redactor.learn_text(whole)
        self._hide_blocks(whole, texts)
        observed = {observation.source for observation in observations}
        cited = [at for at, line in enumerate(lines) if f"{label}:{line.number}" in observed]
        near = {at + by for at in cited for by in range(-_AROUND, _AROUND + 1)}
        ranks = dict.fromkeys(range(max(0, len(lines) - _FAR_END), len(lines)), _FAR)
        ranks |= dict.fromkeys(range(max(0, len(lines) - _END), len(lines)), _NEAR)
        ranks |= {at: _NEAR for at in near if 0 <= at < len(lines)}
        ranks |= dict.fromkeys(cited, _OBSERVED)
        for at, rank in ranks.items():
            if texts[at].strip():
                who = f"[{lines[at].stream}] " if lines[at].stream.startswith("rank ") else ""
                self._picked.append(
                    _Picked(
                        rank,
                        len(lines) - at,
                        self._position + at,
                        who + texts[at],
                        f"{label}:{lines[at].number}",
                    )
                )
        self._position += len(lines)

    def read_run(self, folder: RunFolder, observations: Sequence[Observation]) -> None:
        """The same of a recorded run, whose records tell more names."""
        self._redactor.known.load(folder.private().secrets)
        learn_records(self._redactor, read_material(folder))
        output = folder.output()
        found = {line.number: line.text for line in output.tail(_LEARNT_OF_RUN)}
        first = min(found, default=0)
        for number in _numbers(observations):
            if number < first:
                around = output.around(number, _AROUND, _AROUND)
                found |= {line.number: line.text for line in around}
        self.read(
            "output",
            [
                Line(number, last_drawn(text.decode("utf-8", "replace")))
                for number, text in sorted(found.items())
            ],
            observations,
        )

    def _hide_blocks(self, whole: str, texts: list[str]) -> None:
        """A secret over several lines (a private key) is hidden with all its lines."""
        raw = whole.encode("utf-8", "replace")
        starts = [0, *accumulate(len(text.encode("utf-8", "replace")) + 1 for text in texts)]
        for start, end, _ in self._redactor.places(raw):
            if b"\n" in raw[start:end]:
                first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
                texts[first : last + 1] = ["[secret]"] * (last + 1 - first)

    def lines(self, diagnosis: Diagnosis, most_bytes: int) -> tuple[str, list[SentLine]]:
        """How it ended, and the lines: what was observed first, then what stands around it."""
        self._redactor.learn_value(diagnosis.outcome)
        picked = [*self._picked, *self._observed(diagnosis.observations)]
        self._redactor.finish_learning()
        ending = self._sendable(diagnosis.outcome.summary)
        left = most_bytes - _size_bytes(ending)
        chosen: list[tuple[int, str, str]] = []
        for each in sorted(picked, key=lambda each: (each.rank, each.from_end, each.position)):
            text = self._sendable(each.text)
            size = _size_bytes(text) + len("1000| ") + len(r"\n")
            if size > left:
                break
            left -= size
            chosen.append((each.position, text, each.source))
        chosen.sort(key=lambda line: line[0])
        return ending, [
            SentLine(number, text, source)
            for number, (_, text, source) in enumerate(chosen, start=1)
        ]

    def _observed(self, observations: Sequence[Observation]) -> list[_Picked]:
        """What was observed and does not stand in a line as it is: memory, exits, stacks."""
        printed: dict[str, str] = {}
        for line in self._picked:
            printed[line.source] = f"{printed.get(line.source, '')}\n{line.text}"
        found: dict[tuple[str, str], _Picked] = {}
        for at, observation in enumerate(observations):
            text = one_line(observation.text)
            self._redactor.learn_text(text)
            if text and text not in printed.get(observation.source, ""):
                found.setdefault(
                    (text, observation.source),
                    _Picked(_OBSERVED, 0, self._position + at, text, observation.source),
                )
        return list(found.values())[:MOST_OBSERVATIONS]

    def _sendable(self, text: str) -> str:
        """Masked first, cut afterwards: half a secret has no shape."""
        masked = one_line(self._redactor.mask(one_line(text)))
        return masked if len(masked) <= LONGEST else f"{masked[: LONGEST - 1]}…"


def _size_bytes(text: str) -> int:
    """In the JSON of a request, where quotation marks and backslashes take two."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _numbers(observations: Sequence[Observation]) -> set[int]:
    """The lines of a run's output that were observed."""
    sources = [observation.source.partition(":") for observation in observations]
    return {int(line) for label, _, line in sources if label == "output" and line.isdecimal()}


def one_line(text: str) -> str:
    """Printable, without line ends of any alphabet: before masking, or it would hide a secret."""
    if not text.isprintable():
        text = text.replace("\t", " ").replace("\n", " ")
        text = "".join(char for char in text if char.isprintable())
    # Half a pair is printable for nobody, and no server reads it.
    return text.encode("utf-8", "replace").decode()
