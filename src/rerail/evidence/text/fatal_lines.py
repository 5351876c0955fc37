"""What does native code say before it ends itself?

In: the text of a line. Out: the message of a fatal line as C++, Rust, Lua and Julia programs and
their logging libraries print one, or None. It is to them what an exception's line is to Python.
"""

from __future__ import annotations

from rerail.platform.patterns import linear

TYPE = "Fatal"  # what such a line has in the place of an exception's type

# One of these is in every such line; the first letter of a fatal line of glog is an F.
WORDS = (
    *("Check failed", "[Fatal]", "what():", "panicked at", ".lua:", "LoadError: ", "ERROR ("),
    *("KALDI_", "GGML_ASSERT", "*** MPI_ERR_", "called MPI_Abort", "(0) ", "(1) "),
    *("libc++abi: ",),
    *("Assertion failed: ", "Exception in device=", "Exception) ", "Error) ", "yexception) "),
)
_FATAL = linear(
    r"^F\d{4} \d\d:\d\d:\d\d[.\d]*\s+\d+ [^\]\n]{1,200}:\d+\] ?(?P<glog>.+)"
    r"|^F (?:\./)?[\w./-]{1,200}:\d+\] ?(?P<tensorflow>.+)"
    r"|\[LightGBM\] \[Fatal\] (?P<lightgbm>.+)"
    r"|^[^\n]{0,300}\.(?:cc|cu|cuh|h|hpp|cpp):\d+: (?P<dmlc>Check failed: .+)"
    r"|^\s*what\(\): +(?P<what>\S.*)"
    r"|(?:thread '[^'\n]{0,80}' (?:\(\d+\) )?|PANIC => )panicked at (?P<rust>.+)"
    r"|^\S*lua\w*: \S{1,300}\.lua:\d+: (?P<lua>.+)"
    r"|^ERROR: LoadError: (?P<julia>.+)"
    r"|^(?:ERROR|ASSERTION_FAILED) \([\w-]{1,60}\[\d[^\n]{0,200}?\.cc:\d+\) (?P<kaldi>.+)"
    r"|^(?P<kaldi_assert>KALDI_(?:ASSERT|ERR)\b.+)"
    r"|(?P<ggml>GGML_ASSERT.+)"
    r"|^libc\+\+abi: terminating [\w ]{1,20} uncaught exception of type [\w:<> ]{1,120}?: "
    r"(?P<cxx>.+)"
    r"|\*\*\* (?P<mpi>MPI_ERR_\w+: .+)"
    r"|^Assertion failed: (?P<assertion>\(.+\), function \S.+, file \S.+, line \d+)"
    r"|Exception in device=\S{1,20}: (?P<xla>.+)"
    r"|^\((?:class )?\w*(?:Exception|Error|yexception)\) (?P<yandex>\S.+)"
    r"|application called (?P<mpich>MPI_Abort\(.+)"
    r"|^\s*\([01]\) (?P<status>(?:[A-Z]+_[A-Z_]+|[A-Z]{7,20}|Invalid argument|Internal|Not found"
    r"|Resource exhausted|Unavailable|Cancelled|Aborted|Out of range|Unimplemented|Data loss"
    r"|Failed precondition|Deadline exceeded|Permission denied|Unknown): .+)"
)


# What Rust says stands below the place.
_GOES_ON = linear(r"^\S{1,400}\.rs:\d+:\d+:$|^'[^'\n]+$")


def goes_on(message: str) -> bool:
    """Whether the next lines belong to what a fatal line says."""
    return _GOES_ON.search(message) is not None


def fatal_message(text: str) -> str | None:
    """The words of a fatal line; None of any other."""
    if not text.startswith("F") and not any(word in text for word in WORDS):
        return None
    found = _FATAL.search(text)
    if found is None:
        return None
    return next(words for words in found.groups() if words is not None).strip()
