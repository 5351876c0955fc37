"""An exception's message as it stands in the one sentence: what is wrong, without what is not.

In: the type and message as they were printed, of one line or many. Out: one line of at most
MOST_MESSAGE characters. Left out are places in the library's own sources and the folders of
installed packages, and the two shapes of a parameter that does not fit come first. Of a longer one
the middle is left out: the remedy and the place often stand at its end. The whole message stands in
`why`, in the JSON and in the report.
"""

from __future__ import annotations

from rerail.platform.patterns import linear
from rerail.platform.wordings import wordings
from rerail.wording import cut, file_name

MOST_MESSAGE = 180
_WORDINGS = wordings("short_message")
_PLACE_IN_CPP = _WORDINGS["place-in-cpp"]
_PLACE_WITHIN = _WORDINGS["place-within"]
_OF_A_LOGGER = _WORDINGS["logger"]
_SAYS_WHERE_OR_INSTEAD = _WORDINGS["where-or-instead"]
_MOST_FURTHER = 2
_COMMAND = linear(r"Command '\[('[^\]\n]*')\]'")
_WORD = linear(r"'([^'\n]*)'")
_AFTER = linear(r"timed out after (\d{1,9}\.\d{3,20}) seconds")
_LIBRARY = linear(r"(?:/[\w.+-]+)*/([\w.+-]+\.so)\b")
# A line of logfmt: `ts=… level=error msg="no rows"`.
_KEYS_AND_VALUES = linear(r'^(?:\w+=[^\s"=]+ ){1,8}(?:msg|message)="(?P<words>[^"]{8,})"')
_MOST_PREFIXES = 4
_LEAST_WORDS = 8
# What is wrong stands in the line below: load_state_dict; Keras and TensorFlow say no more before.
_ONLY_ANNOUNCES = linear(r":$")
_SAYS_NOTHING = _WORDINGS["says-nothing"]
_NUMBERED = linear(r"^\(\d\) ")
# A sentence that goes on below, with one word: "Unable to load function" and its name.
_IS_OPEN = linear(r"[^\W\d_]$")
_REFUSED = _WORDINGS["refused"]
_SIZES = _WORDINGS["sizes"]
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
    if (logged := _KEYS_AND_VALUES.search(line)) is not None:
        return logged["words"]
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
