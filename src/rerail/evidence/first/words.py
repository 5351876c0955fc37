"""The words for how the first one failed, and the older words that still stand in documents.

In: a word, or how a process ended. Out: one of the nine words of `HOWS`.
"""

from __future__ import annotations

from rerail.records import CRASH_SIGNALS

HOWS = {
    "raised": "it ended with words of its own: an exception, or an error in its log",
    "crashed": "native code ended it: SIGSEGV, SIGABRT, SIGBUS and the like",
    "killed": "a signal from outside its own code ended it, such as SIGKILL",
    "exited": "it ended with an error code, without a word",
    "left": "it ended well while the others still waited for it",
    "stuck": "it had not entered the collective in which the others waited",
    "late": "it entered the collective after the others had given up",
    "mismatch": "it made another call than the others, or knew another number of ranks",
    "lost": "nobody saw how it ended: it vanished, lost its network, never came, or left no log",
}
FAILURES = frozenset({"raised", "crashed", "killed", "exited"})  # it failed by itself

# What documents, job folders and catalogues of earlier versions say, and what it means.
_OLDER = {
    "failed": "exited",
    "own": "raised",
    "signal": "killed",
    "elsewhere": "mismatch",
    "world": "mismatch",
    "left-early": "left",
    "never-entered": "stuck",
    "silent": "stuck",
    "gone": "lost",
    "host-lost": "lost",
    "missing": "lost",
    "lost-network": "lost",
    "vanished": "lost",
    "never-came": "lost",
}


def how_of(word: object) -> str:
    """Return the word of `HOWS` for one that is read from a document; "" for an unknown one."""
    return str(word) if word in HOWS else _OLDER.get(str(word), "")


def how_it_ended(signal: str | None) -> str:
    """Return the word for an end by this signal, or by an error code if there was none."""
    if not signal:
        return "exited"
    return "crashed" if signal in CRASH_SIGNALS else "killed"
