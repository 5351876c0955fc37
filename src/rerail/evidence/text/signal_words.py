"""What shells call signals, in the languages that they speak.

In: catalogue/wordings/signal_words.toml. Out: WORDS (in lower case, to the signal's name) and
SRUN_WORDS.
"""

from __future__ import annotations

from rerail.platform.signal_names import OF_LINUX
from rerail.platform.wordings import wordings

WORDS = {word: each.says for each in wordings("signal_words").entries for word in each.literals}
_NUMBERS = {name: number for number, name in OF_LINUX.items()}
# What srun says of a task, to the number of the signal that it died of.
SRUN_WORDS = {
    **{word: _NUMBERS[WORDS[word]] for word in ("killed", "segmentation fault", "bus error")},
    **{word: _NUMBERS[WORDS[word]] for word in ("illegal instruction", "floating point exception")},
    "out of memory": _NUMBERS["SIGKILL"],
}
