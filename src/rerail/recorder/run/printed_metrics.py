"""Metrics by their name, in what the command prints.

In: output as it streams. Out: per line the metrics that somebody asked for, and the step and epoch
that the line names. `recall@500=0.43`, `recall@500: 0.43`, `'recall@500': 0.43`, `loss 0.5`.
Promises: linear in the line; of a flood only the newest lines of each stretch are looked at, so
that reading costs a bounded share of a core whatever is printed; nothing raises.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from rerail.platform.patterns import linear
from rerail.platform.terminal_text import without_escapes

LONGEST_LINE = 2000
MOST_LINES = 400  # that wait to be read
MOST_BYTES = 256 * 1024  # looked through between two readings; of more only the end
END_BYTES = 4096

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
_PAIR = linear(
    r"(?:^|[^\w./@%+-])([a-z_][\w./@%+-]*)[\"']?\s{0,4}(?:[:=]\s{0,8}|\s)[\"'\[(]?"
    rf"({_NUMBER})(?:[^\w.]|\.?$|\.\s|it/|s/)",
    re.IGNORECASE,
)
# "epochs: 3" and "steps per epoch = 46" are settings, unless it is "epochs 3/10".
_COUNT = linear(
    r"(?:^|[^\w/])(step|global[_ ]step|iter|iteration|epoch)(?:[\"']?[\s:=#\[(]{0,6}[\"']?"
    r"(\d{1,15})\b|s[\s:=#\[(]{0,6}(\d{1,15})\s?/\s?\d)",
    re.IGNORECASE,
)
_SETTING = linear(
    r"(?:^|\W)(?:per|every|each|max|num|number of|total|save|log|warm-?up)[-_ ](?:\w+[-_ ])?"
    r"(?:epoch|step|iter(?:ation)?)s?\b",
    re.IGNORECASE,
)
_COUNT_WORDS = (b"step", b"iter", b"epoch")


def read_metrics(text: str, wanted: Iterable[str]) -> dict[str, float]:
    """The wanted metrics (in lower case) that a line names; of one named twice the last."""
    text = without_escapes(text[:LONGEST_LINE])
    found = {}
    lowered = text.lower()
    for name in wanted:
        begin = 0
        while (at := lowered.find(name, begin)) >= 0:
            begin = at + len(name)
            # Names may hold what separates others, so each is looked for where it stands.
            pair = _PAIR.match(text[max(0, at - 1) : begin + 64])
            if pair is not None and pair.group(1).lower() == name:
                found[name] = float(pair.group(2))
    return found


def read_counts(text: str) -> dict[str, int]:
    """How far the run is, by this line: step and epoch."""
    text = without_escapes(text[:LONGEST_LINE])
    found: dict[str, int] = {}
    if _SETTING.search(text) is None:
        for match in _COUNT.finditer(text):
            unit = "epoch" if match.group(1).lower() == "epoch" else "step"
            found[unit] = int(match.group(2) or match.group(3))
    return found


class PrintedMetrics:
    """Keeps the lines that may tell something until somebody reads them."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self._wanted = sorted({name.lower() for name in metrics})
        self._words = [*(name.encode() for name in self._wanted), *_COUNT_WORDS]
        self._lines: deque[bytes] = deque(maxlen=MOST_LINES)
        self._rest: dict[str, bytes] = {}  # by stream: the line that is not over yet
        self._taken_bytes = 0

    def feed(self, data: bytes, stream: str) -> None:
        if self._taken_bytes > MOST_BYTES:
            data = data[-END_BYTES:]
        self._taken_bytes += len(data)
        data = self._rest.get(stream, b"") + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._rest[stream] = data[end:][-LONGEST_LINE:]
        whole = data[:end]
        lowered = whole.lower()
        if any(word in lowered for word in self._words):
            for line in whole.replace(b"\r", b"\n").split(b"\n"):
                if any(word in line.lower() for word in self._words):
                    self._lines.append(line[:LONGEST_LINE])

    def read(self) -> Iterator[tuple[dict[str, float], dict[str, int]]]:
        """Of each line since the last reading, what it says."""
        self._taken_bytes = 0
        while self._lines:
            text = self._lines.popleft().decode("utf-8", "replace")
            metrics, counts = read_metrics(text, self._wanted), read_counts(text)
            if metrics or counts:
                yield metrics, counts

    def close(self) -> None:
        """The last line need not have an end."""
        for stream in list(self._rest):
            self.feed(b"\n", stream)
