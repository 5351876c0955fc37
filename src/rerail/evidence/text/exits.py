"""What shells, launchers, schedulers, debuggers and crash reporters say of how something ended.

In: clean lines. Out: `ExitLine`s in order. Only the fixed forms in which such programs speak are
read, so that "Killed" in a sentence is not a death.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rerail.evidence.text.lines import Line
from rerail.evidence.text.signal_words import CORE_DUMPED, WORDS
from rerail.platform.patterns import LinearPattern, LinearSet, linear
from rerail.platform.signal_names import OF_LINUX as SIGNALS

# "run.sh: line 40:", as bash says it in other languages.
_LINE = r"(?:line|Zeile|ligne|línea|linha|riga|строка|行|줄)\s*\d+:|第 ?\d+ ?行[:：]"
_WORD = "|".join(re.escape(word) for word in sorted(WORDS, key=len, reverse=True))
_WINDOWS = {
    0xC0000005: "SIGSEGV",
    0xC0000374: "SIGABRT",
    0xC0000409: "SIGABRT",
    0xC00000FD: "SIGSEGV",
    0xC000001D: "SIGILL",
    0xC0000094: "SIGFPE",
    0xC000013A: "SIGINT",
}
# A minus sign does not survive where a status is kept in a byte: -9 becomes 247.
_NEGATIVE_AS_BYTE = (4, 6, 7, 8, 9, 11, 15)
_SIG = "|".join(SIGNALS.values())


@dataclass(frozen=True)
class ExitLine:
    line: Line
    by: str  # shell, launcher, scheduler, container, debugger, crash-report, faulthandler, …
    signal: str | None = None
    exit_code: int | None = None
    rank: int | None = None
    dumped_core: bool = False


def _of(by: str, pattern: str) -> tuple[str, LinearPattern]:
    return by, linear(pattern, re.IGNORECASE)


# Groups: word (a signal in words), sig (SIGNAME), num (a signal's number), code (an exit code).
_FORMS = [
    # "Killed", "Segmentation fault (core dumped)", "Abort trap: 6": a whole line of a shell.
    _of("shell", rf"[\s*>`-]*(?P<word>{_WORD})(?:: \d+)?(?P<core>{CORE_DUMPED})?[.!*`]*\s*$"),
    # "run.sh: line 40: 53306 Killed   python train.py", "[1]  + 31148 abort  python lora.py"
    _of(
        "shell",
        rf"(?:.*: (?:{_LINE})\s+\d+|\[\d+\]\s*[+-]?\s+\d+(?:\s\w+)?) (?P<word>{_WORD})(?:: \d+)?"
        rf"(?P<core>{CORE_DUMPED})?(?:\s|$)",
    ),
    _of("shell", rf"(?:zsh|bash|sh|-?\w*sh): (?:line \d+: )?(?:\d+ )?(?P<word>{_WORD})(?:\s|:|$)"),
    _of(
        "shell",
        rf"\s*(?P<word>{_WORD})(?:: \d+)?(?P<core>{CORE_DUMPED})?\s{{2,}}\S*(?:python|sh|\./)",
    ),
    _of("shell", rf"fish: .*terminated by signal (?P<sig>{_SIG})"),
    _of("shell", r"Command terminated by signal (?P<num>\d+)"),
    _of("launcher", r"^=   EXIT CODE: (?P<num>[46-9]|11|15)\b"),  # of MPICH: a signal's number
    _of("shell", r"Process finished with exit code (?P<code>-?\d+)"),
    _of(
        "shell",
        r"\b(?:exit|exited|return)(?:s|ed)?\s*(?:with)?\s*(?:exit\s*)?(?:return\s*)?"
        r"(?:status code|code|status)"
        r"\s*[:=]?\s*(?:is\s*)?(?P<code>-?\d+)\b",
    ),
    _of("shell", r"^(?:exit|rc|status)\s*[:=]?\s*(?P<code>\d+)$"),
    _of("shell", r"program exited with code (?P<code>-?\d+)"),
    _of("launcher", r"\"?exit[ _]?(?:code|status)\"?\s*[:=]\s*(?P<code>-?\d+)\)?"),
    _of("launcher", rf"\bSignal (?P<num>\d+) \((?P<sig>{_SIG})\) received by PID"),
    _of("launcher", rf"terminated with signal (?P<sig>{_SIG})"),
    _of("launcher", r"terminated with exit code (?P<code>-?\d+)"),
    _of("launcher", r"non-zero (?:exit )?status (?:code )?(?:of )?(?P<code>-?\d+)"),
    _of("launcher", r"exits with return code = (?P<code>-?\d+)"),
    _of("launcher", rf"died with <Signals\.(?P<sig>{_SIG})"),
    _of("launcher", r"non-zero exit status (?P<code>-?\d+)"),
    _of("launcher", r"^(?:exit )?status (?P<code>3221\d{6})\.?$"),  # wrapped in a narrow window
    _of("launcher", r"exited on signal (?P<num>\d+)"),
    _of("launcher", r"EXIT STRING: .*\(signal (?P<num>\d+)\)"),
    _of("launcher", r"Received (?P<num>\d+) death signal"),
    _of("launcher", r"Process \d+ got signal: (?P<num>\d+)"),
    _of("launcher", rf"\{{(?P<sig>{_SIG})\(-\d+\)"),
    _of("launcher", r"Worker \(?\S*\)? ?was sent SIGKILL|sent (?P<sig>SIGKILL)!"),
    _of("dataloader", rf"is killed by signal: (?P<word>{_WORD})"),
    _of("dataloader", r"exited unexpectedly with exit code (?P<code>\d+)"),
    _of("scheduler", rf"srun: error: .*task[s ].*: (?P<word>{_WORD})\b"),
    _of("scheduler", r"srun: error: .*Exited with exit code (?P<code>\d+)"),
    _of("scheduler", rf"task \d+: (?P<word>{_WORD})"),
    _of("container", r"Exit Code:\s+(?P<code>\d+)"),
    _of("container", r"(?:exited with code|terminated with exit code) \(?(?P<code>\d+)"),
    _of("debugger", rf"received signal (?P<sig>{_SIG})\b"),
    _of("debugger", rf"(?:terminated with signal|stop reason = signal) (?P<sig>{_SIG})"),
    _of("faulthandler", rf"Fatal Python error: (?P<word>{_WORD})"),
    _of("faulthandler", r"Windows fatal exception: (?P<access>access violation)"),
    _of("crash-report", rf"Exception Type:\s+EXC_\w+ \((?P<sig>{_SIG})\)"),
    _of("crash-report", rf"\"(?:signal|indicator)\"\s*:\s*\"(?P<sig>{_SIG})"),
    _of("crash-report", rf"\*\*\* (?P<sig>{_SIG}) (?:\(@|received)"),
    _of("crash-report", r"Signal: [\w ]+ \((?P<num>\d+)\)"),
    _of("crash-report", rf"\b(?:{_WORD}) \(signal (?P<num>\d+)\)"),
    _of("crash-report", r"^signal \((?P<num>\d+)\): "),
    _of(
        "crash-report",
        r"(?:exit(?:ed|ing)?|crash\w*|died|core dumped|terminated|killed|ended)[^\n]{0,30}"
        r"\bsignal:? #?(?P<num>\d+)\b",
    ),
    _of("crash-report", r"Caught signal (?P<num>\d+) \("),
    _of("crash-report", rf"(?:signal |^#\s+)(?P<sig>{_SIG}) \(0x[0-9a-f]+\) at pc="),
    _of("crash-report", rf"`(?P<word>{_WORD})` is detected by the operating system"),
    _of(
        "crash-report",
        r"(?:process|worker|child|job)[^.\n]{0,40} (?:was )?(?:terminated|killed|died|crashed)"
        rf"[^.\n]{{0,20}} (?:by|with|of|due to) (?:signal )?(?P<sig>{_SIG})\b",
    ),
]
# A shell speaks of a signal in words at the beginning of a line only.
_AT_START = {
    at for at, (by, form) in enumerate(_FORMS) if by == "shell" and "(?P<word>" in form.pattern
}
_POSSIBLE = LinearSet(
    [
        linear(f"^(?:{form.pattern})", form.flags) if at in _AT_START else form
        for at, (_, form) in enumerate(_FORMS)
    ]
)
_WORTH = (
    *sorted({word[:6] for word in WORDS if word.isascii()}),
    *("signal", "kill", "terminat", "segm", "segf", "abort", "bus error", "illegal", "floating"),
    *("hangup", "interrupt", "trap", "exit", "rc", "status", "died", "fatal", "exc_", "sig"),
)
_RANK = linear(r"(?:local_rank|rank)\s*[:=]?\s*(\d+)", re.IGNORECASE)
# torchrun's report: who failed first, and apart from it those that it then told to end.
_FOLLOWERS = "Failures:"
_OTHER_PART = linear(r"Root Cause|[=*]{10,}\s*$")


def find_exits(lines: Iterable[Line]) -> list[ExitLine]:
    found = []
    of_followers = False
    for line in lines:
        if len(line.text) > 3000:
            continue
        if of_followers and _OTHER_PART.search(line.text):
            of_followers = False
        elif line.text.rstrip().endswith(_FOLLOWERS):
            of_followers = True
        lowered = line.text.lower()
        may_tell = not lowered.isascii() or any(word in lowered for word in _WORTH)
        if not may_tell or not (one := read_exit(line)):
            continue
        if not (of_followers and one.signal == "SIGTERM"):
            found.append(one)
    return found


def read_exit(line: Line) -> ExitLine | None:
    """What the line says of an ending, or None."""
    for at in _POSSIBLE.possible(line.text):
        by, pattern = _FORMS[at]
        found = pattern.match(line.text) if at in _AT_START else pattern.search(line.text)
        if not found:
            continue
        groups = found.groupdict()
        signal, code = _meaning(groups)
        if signal is None and code is None:
            continue
        rank = _RANK.search(line.text) if "rank" in line.text.lower() else None
        number = int(rank.group(1)) if rank else _stream_rank(line.stream)
        return ExitLine(line, by, signal, code, number, bool(groups.get("core")))
    return None


def _stream_rank(stream: str) -> int | None:
    return int(stream[5:]) if stream.startswith("rank ") else None


def _meaning(groups: dict[str, str | None]) -> tuple[str | None, int | None]:
    if groups.get("word"):
        return WORDS[str(groups["word"]).lower()], None
    if groups.get("sig"):
        name = str(groups["sig"]).upper()
        return (name, None) if name in SIGNALS.values() else (None, None)
    if groups.get("num"):
        return SIGNALS.get(int(str(groups["num"]))), None
    if groups.get("access"):
        return "SIGSEGV", None
    if groups.get("code"):
        return from_code(int(str(groups["code"])))
    return None, None


def from_code(code: int) -> tuple[str | None, int | None]:
    """(signal, exit code) of a status as launchers print it: -9, 137, 247, 3221225477, 1."""
    if windows := _WINDOWS.get(code & 0xFFFFFFFF):
        return windows, code
    if -64 < code < 0:
        return SIGNALS.get(-code), None
    if 128 < code < 160 and code - 128 in SIGNALS:
        return SIGNALS[code - 128], code
    if 256 - code in _NEGATIVE_AS_BYTE:
        return SIGNALS[256 - code], code
    return None, code
