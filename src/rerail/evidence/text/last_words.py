"""What does a log say last that ends without an exception?

In: clean lines, and what is known of progress. Out: a `TracebackText`
without frames whose message is what the end of the log says as an error, or None. Most programs are
not Python, and a paste may leave the exception out: then the last lines that speak as an error does
are to the reader what an exception's line is. Promises: only the end of the log is looked at.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from rerail.evidence.text import fatal_lines
from rerail.evidence.text.lines import Line
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.tracebacks import TracebackText
from rerail.platform.patterns import linear

LOOKED_AT = 40  # lines with words on them, from the end
LAST_FEW = 4  # where a plain sentence counts, too
MOST_WORDS = 6  # lines that are taken together
MOST_CHARS = 400  # of a line
HINT_TYPE = "error"  # of a plain sentence: nothing but its words makes it a failure

# The line is marked as an error by whoever wrote it: a logger, a compiler, a shell, a daemon.
_MARKED = linear(
    r"^[^a-z\n]{0,80}\b(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|PANIC|FAILED|ABORT(?:ED|ING)?)\b"
    r"|^.{0,120}[\[|(<\s](?:ERROR|FATAL|CRITICAL|SEVERE|error|fatal|critical|Error|Fatal)[\]|)>:]"
    r"|^.{0,120}[\s|-](?:ERROR|FATAL|CRITICAL|SEVERE) +[-|]"
    r"|\b(?:level|event|severity)=(?:error|fatal|panic)\b|^panic: "
    r"|^\*\*\* .{0,80}(?:[Ee]rror|failed)"
    r"|^(?:[\w./()-]{1,80}: )?(?:(?:[Ff]atal|[Ii]nternal|[Uu]nexpected|[Uu]nrecoverable) )?"
    r"[Ee]rrors?\b(?:[:!]| \(?\d| in | while | when | at | code)"
    r"|^\W{0,4}(?:ERROR|FATAL|Fatal|Aborting|Abort)\b|^[Ee]rror (?:\w+ing|for|from)\b"
    r"|^\W{0,3}(?:CUDA|cuda|HIP|NVML|OpenCL|Vulkan|MPI|NCCL|cuDNN|cuBLAS)\b.{0,20}[Ee]rror\b.{0,20}:"
    r"|^(?:\w+-DIAG: )?Error detected|Exception has occurred: |^!+ ?Exception\b|^VERIFY failed"
    # A status of gRPC, Abseil, TensorFlow or ONNX Runtime at the beginning.
    r"|^(?:INTERNAL|INVALID_ARGUMENT|NOT_FOUND|UNAVAILABLE|RESOURCE_EXHAUSTED|UNIMPLEMENTED"
    r"|FAILED_PRECONDITION|DATA_LOSS|DEADLINE_EXCEEDED|PERMISSION_DENIED|OUT_OF_RANGE|UNKNOWN"
    r"|FAIL|NO_SUCHFILE|INVALID_GRAPH|INVALID_PROTOBUF|RUNTIME_EXCEPTION) ?: \S"
)
# A level that libraries give to what is no failure as well: the words have to say one, too.
_MAYBE_MARKED = linear(r"^\[?E\d{4} \d\d:|^\[E |^E [\w./-]+:\d+\]| E \w+/[\w./-]+:\d+\]")
# A sentence that says that something did not work.
_FAILS = linear(
    r"(?i)\b(?:failed|failure|cannot|can ?not|can't|could not|couldn't|unable to|aborted|aborting"
    r"|refused|denied|rejected|exceeded|crashed|not found|no such|does not exist|not supported"
    r"|unsupported|unrecogni[sz]ed|page fault|out of memory|mismatch|corrupt(?:ed)?|timed? ?out"
    r"|unexpectedly|invalid|terminated|not available|unavailable|lost|insufficient|incompatible"
    r"|died|stopped|unhealthy|exception|is expected to"
    r"|not (?:installed|implemented|allowed|valid))\b"
)
# Somebody ended the job: that stands behind the last progress.
_STOPPED = linear(
    r"(?i)\b(?:job|pod|container|task|process|trial|instance|node|worker|run|application|session)\b"
    r".{0,80}\b(?:killed|terminated|cancell?ed|evicted|preempted|deleted|reclaimed|stopped|expired"
    r"|exceeded|requeued|revoked|aborted)\b"
    r"|\b(?:wall ?time|wall ?clock)\b.{0,40}\b(?:limit|exceeded|reached|expired|killed)\b"
    r"|\b(?:time limit|memory limit)\b"
)
_NO_FAILURE = linear(
    r"^[IWD]\d{4} |^\W{0,3}[IWD] |(?i)^\W*(?:\[?(?:info|warn\w*|debug|notice|note|hint)\b)"
    r"|\bwarn(?:ing)?\b|[\s\[|-](?:INFO|DEBUG)[\s\]:|-]|\.py:\d+: \w*Warning"
    r"|\b(?:ignor(?:e|ed|ing)|skipp(?:ed|ing)|retry(?:ing)?|fall(?:ing)?[ -]?back"
    r"|recover(?:ed|ing)|disabl(?:ed|ing)|deprecat\w+|optional|instead|successfully)\b"
    r"|\b0 (?:errors?|failed|failures?|corrupt\w*|missing|invalid)\b|errors?[:=] ?0\b|no errors?\b"
    r"|mean (?:absolute|squared)|error rate|error[=:] ?[-+]?\d*\.\d|\bloss\b[:= ]+[-\d]"
    r"|unable to register|cuInit|already been registered|not used when initializing"
    r"|dependency resolver|which is incompatible|secret value from your vault"
    r"|Unable to initialize backend '|^qt\.|^ALSA lib|coredump_hook\.cc"
    r"|Assertion .0. failed|^\W*if you (?:get|see)\b|\(\d+ TERMINATED\)|^\W*Wall time: [\d.]+"
    r"|^Error in callback <function|slow_operation|taking a while|extraneous bytes"
)


_COMMAND = linear(r"^\s*(?:[$>#] |--?\w)|\s--\w[\w-]+ ")


def last_words(
    lines: Sequence[Line], resumption: Resumption, quoted: Container[tuple[int, int]]
) -> TracebackText | None:
    """What the end says as an error, where no progress follows it.

    `quoted`: file and number of the lines that tracebacks quote, which are code.
    """
    marked: list[Line] = []
    hints: list[Line] = []
    seen = 0
    for line in reversed(lines):
        text = line.text[:MOST_CHARS]
        if not text.strip():
            continue
        if seen >= LOOKED_AT or resumption.after(line.number, is_fatal=True):
            break
        seen += 1
        if (line.file, line.number) in quoted or _NO_FAILURE.search(text):
            continue
        fails = _FAILS.search(text) is not None
        if _MARKED.search(text) or (fails and _MAYBE_MARKED.search(text)):
            marked.append(line)
        elif seen <= LAST_FEW and _is_hint(text, fails, resumption.has_begun):
            hints.append(line)
    found = marked or hints
    if not found:
        return None
    return _together(found[::-1][:MOST_WORDS], fatal_lines.TYPE if marked else HINT_TYPE)


def _is_hint(text: str, fails: bool, has_begun: bool) -> bool:
    """Of a run that had begun, a sentence about what did not work may be of no account."""
    if _COMMAND.search(text):
        return False
    return _STOPPED.search(text) is not None if has_begun else fails


def _together(said: Sequence[Line], type_name: str) -> TracebackText:
    last = said[-1]
    words = TracebackText(said[0].number, last.number, stream=last.stream, file=last.file)
    words.type = words.full_type = type_name
    words.message = "\n".join(line.text[:MOST_CHARS].strip() for line in said)
    words.message_lines = [line.number for line in said]
    words.stamp_text = last.stamp_text
    return words
