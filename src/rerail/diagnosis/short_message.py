"""An exception's message as it stands in the one sentence: what is wrong, without what is not.

In: the type and message as they were printed, of one line or many. Out: one line of at most
MOST_MESSAGE characters. Left out are places in the library's own sources and the folders of
installed packages, and the two shapes of a parameter that does not fit come first. Of a longer one
the middle is left out: the remedy and the place often stand at its end. The whole message stands in
`why`, in the JSON and in the report.
"""

from __future__ import annotations

from rerail.platform.patterns import linear
from rerail.wording import cut, file_name

MOST_MESSAGE = 180
# XGBoost and others begin a message with "[18:40:29] /build/src/data/data.cc:522: ", torch some
# with "[enforce fail at inline_container.cc:672] . ", gloo all with "[/build/…/pair.cc:534] ",
# Jittor with "[f 0406 15:14:28.485 56 a.cc:266] ".
_PLACE_IN_CPP = linear(
    r"\[\d\d:\d\d:\d\d\] \S+:\d+: |\[enforce fail at [\w./-]{1,80}:\d+\] ?\.? ?"
    r"|\[[\w./+-]{1,200}\.(?:cc|cpp|cu|h):\d+\] "
    r"|\[[a-z] \d{4} \d\d:\d\d:\d\d[.\d]* \d+ [\w.-]+:\d+\] "
)
# Words, a place, and only then what is wrong: NCCL's errors, torch's own checks.
_PLACE_WITHIN = linear(
    r" (?:in|at):? \"?[\w./+-]{1,200}\.(?:cc|cpp|cu|cuh|h)\"?:\d+"
    r"(?:, please report a bug to PyTorch\.|[,:]) "
)
# What a logger puts before the words.
_OF_A_LOGGER = linear(
    r"^(?:\[?[IWEF]\d{0,8} [^\]]{0,140}\][ :]*"  # glog, TensorFlow, c10d
    r"|\[[^\]]{0,60}\d\d:\d\d[^\]]{0,60}\][ :]*|\[ *[+\d.]+\] *"  # a time, the kernel's time
    r"|\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d[\d.,:Z+]*[ :]*"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]+:|Fatal: |error: |\(raylet\) "
    r"|[\w.]+ - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - |(?:ERROR|CRITICAL|FATAL)[ :|-]+"
    r"|\d\d:\d\d:\d\d[.,\d]* [|-] "
    r"|E[A-Z\d]\d{4}: (?:\[PID: \d+\] )?[\d:.-]{10,40} |worker-\d+: "  # Ascend, DeepSpeed
    r"|libc\+\+abi: terminating (?:due to|with) uncaught exception of type [^ :]+(?:::[^ :]+)*: "
    r"|\S{1,200}\.(?:cc|cpp|cu|cuh|h|mm?|py):\d+: )"
)
# Of the lines below the first: what says where it is, or what would do instead.
_SAYS_WHERE_OR_INSTEAD = linear(
    r"\bline \d+, column \d+|^(?:Did you mean|HINT|Hint|Available|Allowed|Valid|Expected|Use) "
    r"|\b(?:use any of|(?:one of|did not have) the following|expected .{1,200} in input)\b"
)
_MOST_FURTHER = 2
_COMMAND = linear(r"Command '\[('[^\]\n]*')\]'")
_WORD = linear(r"'([^'\n]*)'")
_AFTER = linear(r"timed out after (\d{1,9}\.\d{3,20}) seconds")
_LIBRARY = linear(r"(?:/[\w.+-]+)*/([\w.+-]+\.so)\b")
_MOST_PREFIXES = 4
_LEAST_WORDS = 8
# What is wrong stands in the line below: load_state_dict; Keras and TensorFlow say no more before.
_ONLY_ANNOUNCES = linear(r":$")
_SAYS_NOTHING = linear(
    r"Exception encountered when calling .{1,120}\.$|From /job:\S{1,80}:$|\d root error\(s\) found"
)
_NUMBERED = linear(r"^\(\d\) ")
# A sentence that goes on below, with one word: "Unable to load function" and its name.
_IS_OPEN = linear(r"[^\W\d_]$")
# torch.load says first what can be done about it, and what it refused only below that.
_REFUSED = linear(
    r"WeightsUnpickler error: (?P<what>[^\n]{1,200}?)(?: by default)?(?:\.\s|\.?\n|$)"
)
_SIZES = linear(
    r"copying a param with shape torch\.Size\((?P<saved>\[[\d, ]*\])\) from checkpoint, "
    r"the shape in current model is torch\.Size\((?P<model>\[[\d, ]*\])\)"
)
# Where an import came from: "cannot import name 'x' from 'y' (/usr/lib/…/y/__init__.py)".
_FILE_OF_MODULE = linear(r" \((?P<path>/[^()]{1,400}\.(?:py|so))\)$")
_OF_A_PACKAGE = linear(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d")


def short_message(text: str) -> str:
    lines = text.strip().split("\n")
    if "Weights only load failed" in lines[0] and (refused := _REFUSED.search(text)):
        lines = [f"{lines[0].partition('. ')[0]}: {refused['what']}"]
    first = _PLACE_IN_CPP.sub("", without_logger(" ".join(lines[0].split())))
    first = _PLACE_WITHIN.sub(": ", first)
    details = [" ".join(line.split()) for line in lines[1:] if line.strip()]
    told = [line for line in details if not _SAYS_NOTHING.search(line)]
    if told and _SAYS_NOTHING.search(first):
        first = f"{first.partition(':')[0]}: {_NUMBERED.sub('', told[0])}"
    elif details and _IS_OPEN.search(first) and " " not in details[0]:
        first = f"{first} {details[0]}"
    elif _ONLY_ANNOUNCES.search(first):
        first = f"{first.rstrip('.:')}: {_sizes_told(details[0])}" if details else first
        first += f"; and {len(details) - 1} more" if _are_sizes(details) else ""
    further = [
        line for line in details if line not in first and _SAYS_WHERE_OR_INSTEAD.search(line)
    ]
    first = "; ".join([_plain_command(_without_folder(first)), *further[-_MOST_FURTHER:]])
    return cut(first, MOST_MESSAGE).rstrip(".:")


def _plain_command(line: str) -> str:
    """A command of subprocess as it would be typed, and libraries without their folder."""
    if (found := _COMMAND.search(line)) is not None:
        words = [
            file_name(word) if word.startswith("/") else word for word in _WORD.findall(found[1])
        ]
        line = f"{line[: found.start()]}`{' '.join(words)}`{line[found.end() :]}"
    if (after := _AFTER.search(line)) is not None:
        line = f"{line[: after.start(1)]}{float(after[1]):.1f}{line[after.end(1) :]}"
    return _LIBRARY.sub(r"\1", line)


def without_logger(line: str) -> str:
    """Without times, levels and the logger's own file; a line that has hardly more stays."""
    for _ in range(_MOST_PREFIXES):
        words = _OF_A_LOGGER.sub("", line)
        line = words if len(words) >= _LEAST_WORDS else line
    return line


def _sizes_told(line: str) -> str:
    """ "size mismatch for head.weight: [10, 64] in the checkpoint, [12, 64] in the model"."""
    return _SIZES.sub(r"\1 in the checkpoint, \2 in the model", line).rstrip(".")


def _are_sizes(details: list[str]) -> bool:
    return len(details) > 1 and all(line.startswith("size mismatch for ") for line in details)


def _without_folder(line: str) -> str:
    found = _FILE_OF_MODULE.search(line)
    if found is None:
        return line
    path = found["path"]
    shown = "" if _OF_A_PACKAGE.search(path) else f" ({file_name(path)})"
    return line[: found.start()] + shown
