"""How many planted secrets stay readable, how many ordinary words go, and what does it cost?

    .venv/bin/python -m benchmarks.secrets_masked [--megabytes 5] [--logs ../shared/corpus]

Four measurements of the maskers themselves; `tests/integration/test_planted_secrets.py` looks for
the same secrets in everything that a real run leaves. (1) Two sets of 240 planted secrets in eight
places, as the recorder keeps them: the bar is 3 of each that stay. (2) Other ways to write a secret
down, of other languages and tools. (3) Ordinary words of real logs (`*.jsonl` with a `log` in each
line), each log alone: the bar is 1 masked in 200. (4) CPU seconds for a MB of output, in reads of
64 KiB: lines with one distinct secret each, for which the bar is 0.25 s, and ordinary ones.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import sys
import time
from collections import Counter
from pathlib import Path

from rerail.privacy import Masker, OutputMasker

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "privacy"))
from planted_layouts import planted_layouts  # noqa: E402
from planted_second_set import second_set  # noqa: E402
from planted_set import PLACES, Entry, planted_set  # noqa: E402
from test_privacy_planted_set import masked, without_colours  # noqa: E402

_READ_BYTES = 64 * 1024
_LETTERS = string.ascii_letters + string.digits


def count_planted(entries: list[Entry]) -> int:
    left: Counter[str] = Counter()
    for entry in entries:
        seen = "\n".join(without_colours(text) for text in masked(entry))
        left[entry.place] += any(secret in seen for secret in entry.planted.secrets)
    kinds = {entry.planted.kind.partition(": ")[2] for entry in entries}
    print(f"planted: {left.total()} of {len(entries)} stay, of {len(kinds)} kinds")
    print("  " + ", ".join(f"{place} {left[place]}" for place in PLACES))
    return left.total()


def count_other_layouts() -> None:
    others = planted_layouts()
    stay = [p.kind for p in others if any(s in Masker().mask_text(p.text) for s in p.secrets)]
    print(f"other layouts: {len(stay)} of {len(others)} stay {stay or ''}")


def count_false_masks(folder: Path) -> float:
    logs = [
        json.loads(line)["log"]
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    if not logs:
        print(f"no logs in {folder}: ordinary words are not counted")
        return 0.0
    words = gone = 0
    for log in logs:
        ordinary = Counter(log.split())
        words += ordinary.total()
        gone += (ordinary - Counter(Masker().mask_text(log).split())).total()
    print(f"ordinary words: {gone} of {words} masked, in {len(logs)} logs")
    return gone / words


def measure_speed(megabytes: float) -> float:
    chance = random.Random(1)

    def word(length: int) -> str:
        return "".join(chance.choices(_LETTERS, k=length))

    kinds = {
        "a token with a shape": lambda: f"using ghp_{word(36)}",
        "another, to its end": lambda: f"hf_{word(34)}",
        "a value behind a name": lambda: f"password={word(14)}",
        "a key in JSON": lambda: f'{{"api_key": "{word(32)}", "n": 1}}',
        "words like tokens": lambda: word(24),
        "a training log": lambda: (
            f"epoch 3 step {chance.randrange(9999)}/9999 loss 0.12 tokens/s 9"
        ),
    }
    slowest = 0.0
    for kind, line in kinds.items():
        lines, size = [], 0
        while size < megabytes * 1e6:
            lines.append(line())
            size += len(lines[-1]) + 1
        text = "\n".join(lines).encode()
        masker, start = OutputMasker(Masker()), time.process_time()
        for at in range(0, len(text), _READ_BYTES):
            masker.feed(text[at : at + _READ_BYTES])
        seconds = (time.process_time() - start) / (len(text) / 1e6)
        slowest = max(slowest, seconds)
        print(f"{kind}: {seconds:.3f} s of CPU a MB")
    return slowest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=5.0)
    parser.add_argument("--logs", type=Path, default=ROOT.parent / "shared" / "corpus")
    arguments = parser.parse_args()
    left = max(count_planted(planted_set()), count_planted(second_set()))
    count_other_layouts()
    share = count_false_masks(arguments.logs)
    measure_speed(arguments.megabytes)
    return int(left > 3 or share > 1 / 200)


if __name__ == "__main__":
    sys.exit(main())
