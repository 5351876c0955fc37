"""What does native code say before it ends itself?

In: the text of a line. Out: the message of a fatal line as C++, Rust, Lua and Julia programs and
their logging libraries print one, or None. It is to them what an exception's line is to Python.
"""

from __future__ import annotations

from rerail.platform.patterns import linear

TYPE = "Fatal"  # what such a line has in the place of an exception's type

# One of these is in every such line; the first letter of a fatal line of glog is an F.
WORDS = (
    *("Check failed", "[Fatal]", "what():", "panicked at", ".lua:", "LoadError: ", "KALDI_"),
    *("GGML_ASSERT", "*** MPI_ERR_"),
)
_FATAL = linear(
    r"^F\d{4} \d\d:\d\d:\d\d[.\d]*\s+\d+ [^\]\n]{1,200}:\d+\] ?(?P<glog>.+)"
    r"|^F (?:\./)?[\w./-]{1,200}:\d+\] ?(?P<tensorflow>.+)"
    r"|\[LightGBM\] \[Fatal\] (?P<lightgbm>.+)"
    r"|^[^\n]{0,300}\.(?:cc|cu|cuh|h|hpp|cpp):\d+: (?P<dmlc>Check failed: .+)"
    r"|^\s*what\(\): +(?P<what>\S.*)"
    r"|thread '[^'\n]{0,80}' (?:\(\d+\) )?panicked at (?P<rust>.+)"
    r"|^\S*lua\w*: \S{1,300}\.lua:\d+: (?P<lua>.+)"
    r"|^ERROR: LoadError: (?P<julia>.+)"
    r"|^(?:ERROR|ASSERTION_FAILED) \([^)\n]{1,200}\) (?P<kaldi>.+)"
    r"|^(?P<kaldi_assert>KALDI_(?:ASSERT|ERR)\b.+)"
    r"|(?P<ggml>GGML_ASSERT.+)"
    r"|\*\*\* (?P<mpi>MPI_ERR_\w+: .+)"
)


def fatal_message(text: str) -> str | None:
    """The words of a fatal line; None of any other."""
    if not text.startswith("F") and not any(word in text for word in WORDS):
        return None
    found = _FATAL.search(text)
    if found is None:
        return None
    return next(words for words in found.groups() if words is not None).strip()
