"""Which lines that sound like a failure are none?

In: the text of a line, or a match on it. Out: whether it only warns, says itself what was done
instead, or is code that a traceback quotes. What is raised is never harmless by its words alone.
"""

from __future__ import annotations

from collections.abc import Container

from rerail.evidence.text.signatures import SignatureMatch
from rerail.platform.patterns import linear

# As Python's warnings module prints one: the program went on.
_PYTHON_WARNING = linear(r"\.py:\d+: (?:\w+\.)*\w*Warning: |^\s*warnings\.warn\(")
# Of these nobody has yet seen one that ended anything.
_IDLE_WARNING = linear(
    r"(?:\.py|>):\d+: (?:\w+\.)*(?:PendingDeprecation|Deprecation|VisibleDeprecation"
    r"|Future|Tqdm|Syntax|Convergence|Resource|Experimental)Warning: |^\s*warnings\.warn\("
)
_LOGGED_AS_WARNING = linear(r"^.{0,100}(?:^|[\[|(\s-])WARN(?:ING)?[\]|):]|^\[\w+ W \d{4}-")
# The line calls itself a warning, or says that it left a step out.
_WARNS = linear(
    r"(?i)^\W*(?:\w+: ?)?warn(?:ing)?\b|^W \w+/|\bskipp(?:ing|ed) (?:step|batch|update|iteration)"
)
_DEALT_WITH = linear(
    r"(?i)\b(?:ignoring|ignored|skipp(?:ing|ed)|falling back|will fall ?back|using fallback"
    r"|entering retry loop|continuing (?:anyway|without)|using internal implementation"
    r"|resolved after|resum(?:ing|ed) normal|succeeded (?:after|on) (?:retry|attempt|\d)"
    r"|(?:start|train)(?:ing|ed)? from scratch|trying (?:the )?next"
    r"|(?:try|using|use) another (?:sample|index|one)"
    r"|skip it|can (?:be )?(?:safely )?ignored?|safe to ignore|no action (?:is )?needed"
    r"|Failed to open libibverbs|will (?:be used instead|use \w+ \w+ calls)"
    r"|pip's dependency resolver does not|which is incompatible"
    r"|[Dd]efaulting to user|values will be initialized|secret value from your vault"
    r"|if you (?:get|see|encounter|run out of|are (?:seeing|getting))"
    r"|(?:may|might) (?:see|encounter)"
    r"|recovered from|re-?connected (?:to|after)|retry(?:ing)? succeeded)\b"
)
# A line of glog or absl at the level of information, and of what is looked for and not needed.
_INFORMS = linear(
    r"^I\d{4} \d\d:\d\d:\d\d|^I (?:tensorflow|external|xla|tsl|\./tensorflow)/"
    r"|^(?:W\S* [^\n]{0,80}|WARNING\S* ?)?Unable to initialize backend '"
    r"|coredump_hook\.cc:\d+\] RAW: |xla_bridge\S*:?(?:\d+\])? Unable to initialize backend '"
    r"|dso_loader\.cc:\d+\] Could not load dynamic library '(?:lib)?nvinfer"
)
# What a logger gives the level of information, after a time and a name.
_LOGGED_TO_INFORM = linear(
    r"^[^a-z\n]{0,60}(?:INFO|DEBUG)\b|^.{0,80}[\[|(\s-](?:INFO|DEBUG|info|debug)[\]|):\s]"
)
# A line at level INFO or below, in the formats of logging, glog, Tornado, structlog and logfmt.
_AT_LEVEL_INFO = linear(
    r"^[^a-z\n]{0,60}\b(?:INFO|DEBUG|TRACE)\b|^.{0,120}[\[|(\s:-](?:INFO|DEBUG|TRACE)\s*[\]|):\s-]"
    r"|^.{0,80}[\[|(](?:info|debug|trace)\s*[\]|)]|^(?:info|debug|trace)\b\s?:"
    r"|^\[?[ID] ?\d{4,6} \d\d:\d\d|^[ID] [\w./-]+:\d+\]"
    r"|\blevel(?:name)?\W{1,5}(?:info|debug|trace|INFO|DEBUG|TRACE)\b"
)
_LEVELS = ("INFO", "DEBUG", "TRACE", "info", "debug", "trace")
# What TensorFlow says at that level when it waits for others, or has run out of memory.
_INFORMS_OF_TROUBLE = linear(r"still waiting|has not (?:responded|joined)|stuck|bfc_allocator\.cc")
_LOGS_TROUBLE = linear(
    r"(?i)\b(?:waiting|stuck|stall|kill|die[ds]?\b|dead|fail|error|exit|signal|terminat|oom|out of"
    r"|timed? ?out|evict|preempt|cancel|stop|abort|crash|exceed|refus|denied|cannot|unable"
    r"|could not|nan\b|inf\b|overflow|exception|lost|not found|no such|invalid|mismatch|interrupt"
    r"|warn|reset|closed|resource|memory|(?:0|no|zero) \w+ left|skipped)"
    r"|NCCL|sig(?:term|kill|hup|int)|-> [1-9]\b"
)
# Steps that are skipped because their gradients overflow are not dealt with when all of them are.
_OF_STEPS = linear(r"(?i)skipp(?:ing|ed) (?:step|batch|update|iteration|optimizer)")
# Nor are samples, when none is left.
_OF_ALL = linear(r"(?i)\ball\b.{0,40}skipp(?:ing|ed)|\b(?:0|no|zero) \w+ (?:left|remain)")
_IS_RAISED = linear(
    r"\b(?:raise|assert)\b|^\W*[\w.]+(?:Error|Exception|Warning|Interrupt)\b",
)


def is_python_warning(text: str) -> bool:
    return _PYTHON_WARNING.search(text) is not None


def is_logged_as_warning(text: str) -> bool:
    return _LOGGED_AS_WARNING.search(text) is not None


def is_context(text: str) -> bool:
    """Whether the line calls itself information: it never tells what ended a program."""
    if not (text.startswith(("I", "[I", "D", "[D")) or any(word in text for word in _LEVELS)):
        return False
    return _AT_LEVEL_INFO.search(text) is not None


def only_warns(match: SignatureMatch) -> bool:
    """What the first step after it proves survived."""
    return match.traceback is None and _WARNS.search(match.text) is not None


def is_dealt_with(match: SignatureMatch) -> bool:
    """The line itself says what was done instead, or only informs."""
    if match.traceback is None and (_only_informs(match.text) or _IDLE_WARNING.search(match.text)):
        return True
    return (
        match.traceback is None
        and _DEALT_WITH.search(match.text) is not None
        and not _OF_STEPS.search(match.text)
        and not _OF_ALL.search(match.text)
        and not _IS_RAISED.search(match.text)
    )


def _only_informs(text: str) -> bool:
    if _INFORMS.search(text):
        return not _INFORMS_OF_TROUBLE.search(text)
    return _LOGGED_TO_INFORM.search(text) is not None and not _LOGS_TROUBLE.search(text)


def is_quoted_code(match: SignatureMatch, quoted: Container[tuple[int, int]]) -> bool:
    """A word in code that a traceback quotes is not a message; in a `raise` it is one.

    `quoted`: file and number of the lines that tracebacks quote.
    """
    return (
        match.traceback is None
        and match.signature.where == "line"
        and (match.file, match.line) in quoted
        and not _IS_RAISED.search(match.text)
    )
