"""How quantities, processes and paths are said in an observation's sentence.

In: numbers and records. Out: short English. Bytes are in binary units because limits are set in
them (700 MiB is what a cgroup of 734003200 bytes was asked for); a whole number stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Protocol

from rerail.records import ProcessRecord

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_ROLE_WORDS = {
    "main": "the main process",
    "rank": "a rank",
    "loader-worker": "a DataLoader worker",
    "launcher": "the launcher",
    "shell": "the shell",
    "multiprocessing": "a multiprocessing child",
    "helper": "a helper process",
    "daemon": "a background process",
}


RANK_ROLES = ("main", "rank", "child")  # what a process with the number of a rank may be


def bytes_in_words(count: float) -> str:
    """`734003200` is "700 MiB"; one decimal below ten of a unit, unless it is whole."""
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    if unit == "bytes":
        return f"{value:.0f} bytes"
    is_whole = abs(value - round(value)) < 0.005
    return f"{value:.0f} {unit}" if is_whole or abs(value) >= 100 else f"{value:.1f} {unit}"


def ending_in_words(signal: str | None, exit_code: int | None) -> str:
    return f"was killed by {signal}" if signal else f"exited with code {exit_code}"


def seconds_in_words(seconds: float) -> str:
    """About how long, in one unit: "35 ms", "4.2 s", "48 s", "12 min", "3.5 h"."""
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def duration_in_words(seconds: float) -> str:
    """Two units at most: "0.3 s", "42 s", "12 min 5 s", "3 h 20 min", "4 d 2 h"."""
    seconds = max(seconds, 0.0)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


# Probabilities on record are rounded: what is nothing there is not nothing.
LEAST = 1e-9


def percent(chance: float, digits: int = 0) -> str:
    """Return a probability as "97 %": neither 0 nor 100 unless it is exactly that.

    `digits` are decimals, for what is compared with a threshold. Near 0 and 100 there are more:
    "3.4 %", "99.3 %", "0.04 %", "below 0.01 %", "above 99.99 %".
    """
    if 0.0 < chance < 0.0001:
        return "below 0.01 %"
    if 0.9999 < chance < 1.0:
        return "above 99.99 %"
    if 0.0 < chance < 1.0:
        distance = min(chance, 1.0 - chance)
        digits = max(digits, 0 if distance >= 0.01 else 1 if distance >= 0.001 else 2)
    number = f"{100.0 * chance:.{digits}f}"
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} %"


def share_in_percent(share: float, form: str = ".0f") -> str:
    """Return a measured share as "97 %"; it may be above 100 %, and 0 % may be a little."""
    return f"{100.0 * share:{form}} %"


def role_in_words(role: str | None) -> str:
    return _ROLE_WORDS.get(role or "", "a child process")


def ray_worker_in_words(name: str) -> str | None:
    """ "Ray worker Server" of `ray::Server`, the title that Ray gives a worker; None of others."""
    who = name.removeprefix("ray::")
    return f"Ray worker {who}" if who != name and who not in ("", "IDLE") else None


def lost_in_words(lost: Mapping[str, Any]) -> str:
    """The worker or the thread that somebody waits for, and how it ended."""
    if lost.get("thread"):
        return f"thread {lost['thread']} ended with {lost.get('exception') or 'an exception'}"
    ending = ending_in_words(lost.get("signal"), lost.get("exit_code"))
    return f"{role_in_words(lost.get('role'))} (pid {lost.get('pid')}) {ending}"


def thread_in_words(name: str) -> str:
    """By its own name, or by the function that it runs."""
    return f"the thread of {name}" if name.endswith("()") else f"thread {name}"


class InTheTree(Protocol):
    """What a process is: a ProcessRecord, or a line that was made of one."""

    @property
    def role(self) -> str: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def world_size(self) -> int | None: ...
    @property
    def node(self) -> int | None: ...
    @property
    def worker(self) -> int | None: ...


def standing_in_words(process: InTheTree) -> str:
    """ "rank 1 of 4 on node 0", "loader worker 2 of rank 1", "launcher": as far as it is known."""
    if process.role == "loader-worker":
        number = "" if process.worker is None else f" {process.worker}"
        of_rank = "" if process.rank is None else f" of rank {process.rank}"
        return f"loader worker{number}{of_rank}"
    if process.rank is None or process.role not in RANK_ROLES:
        return process.role
    of = "" if process.world_size is None else f" of {process.world_size}"
    return f"rank {process.rank}{of}" + ("" if process.node is None else f" on node {process.node}")


def process_in_words(process: ProcessRecord) -> str:
    """ "rank 1 (pid 4712, python)": who it is, as a user would point at it."""
    is_rank = process.rank is not None and process.role in RANK_ROLES
    who = f"rank {process.rank}" if is_rank else role_in_words(process.role)
    if process.role == "loader-worker" and process.worker is not None:
        of_rank = "" if process.rank is None else f" of rank {process.rank}"
        who = f"DataLoader worker {process.worker}{of_rank}"
    if not is_rank and (worker := ray_worker_in_words(process.name)):
        return f"the {worker} (pid {process.pid})"
    name = f", {process.name}" if process.name else ""
    return f"{who} (pid {process.pid}{name})"


def sentence(text: str) -> str:
    """Capitalised, with a full stop."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else text + "."


def rate_in_words(steps_per_second: float) -> str:
    """ "1,550 steps/s", "3.61 steps/s", "2.5 s/step": three digits and no power of ten."""
    if 0 < steps_per_second < 1:
        return f"{short_number(1 / steps_per_second)} s/step"
    return f"{short_number(steps_per_second)} steps/s"


def short_number(value: float) -> str:
    """Three digits, all of them of a number above a thousand: "1,550", "36.1", "0.25"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def symbol_in_words(name: str) -> str:
    """Return the name of a C++ function without its template arguments and parameters."""
    kept, depth = [], 0
    plain = name.replace("(anonymous namespace)::", "").replace("operator()", "operator_call")
    plain = plain.replace("operator<<", "operator_shift").replace("->", "")
    for character in plain:
        depth -= character in ">)" and depth > 0
        if depth == 0 and character not in "<>()":
            kept.append(character)
        depth += character in "<("
    short = " ".join("".join(kept).split()).removesuffix(" const")
    short = short.replace("operator_call", "operator()").replace("operator_shift", "operator<<")
    return cut(short.rpartition(" ")[2] or name, _LONGEST_SYMBOL)


_LONGEST_SYMBOL = 70


def listed(words: Sequence[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def file_name(path: str) -> str:
    """The last part of a path from the recorded machine, which need not be this one."""
    path = path.removesuffix(" (deleted)")
    of_windows = "\\" in path and "/" not in path
    return (PureWindowsPath if of_windows else PurePosixPath)(path).name or path


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


CELL = "Cell In["  # how IPython names the file of a cell, before its number


def source_name(path: str) -> str:
    """The name of a source file; of an `__init__.py`, which there are many of, its folder too."""
    name = file_name(path)
    folder = PurePosixPath(path).parent.name if name in ("__init__.py", "__main__.py") else ""
    return f"{folder}/{name}" if folder else name


def place_in_words(where: Mapping[str, Any], shown: Callable[[str], str] = source_name) -> str:
    """ "hang.py:7 save()"; of what has no name (a module, a `<genexpr>`) only the line."""
    if not where.get("file"):
        return ""
    file = str(where["file"])
    cell = _cell_in_words(file)
    line = (f", line {where['line']}" if cell else f":{where['line']}") if where.get("line") else ""
    function = str(where.get("function") or "")
    called = f" {function}()" if function and not function.startswith("<") else ""
    return f"{cell or shown(file)}{line}{called}"


def _cell_in_words(file: str) -> str:
    """ "cell 4"; a stack that is read from outside has only the kernel's own name for a cell."""
    if file.startswith(CELL):
        return f"cell {file.removeprefix(CELL).rstrip(']')}"
    path = PurePosixPath(file)
    return "a cell of the notebook" if path.parent.name.startswith("ipykernel_") else ""


# Of a text that is cut: the share of its beginning. The end often holds the remedy or the place.
_SHARE_OF_BEGINNING = 0.6
_LEAST_WITH_AN_END = 24  # a shorter text keeps its beginning alone
_LEAST_OF_A_LIST = 40  # a shorter one stays as it is


def cut(text: str, most: int) -> str:
    """Return the text in at most `most` characters, without the part that is missed least.

    A list within it loses its end first, then the text its middle: a message begins with what is
    wrong and ends with the remedy.
    """
    if len(text) <= most:
        return text
    if most < _LEAST_WITH_AN_END:
        return text[: max(most - 1, 0)].rstrip() + "…"
    text = _with_shorter_lists(text, most)
    if len(text) <= most:
        return text
    begins = int((most - 3) * _SHARE_OF_BEGINNING)
    rest = most - 3 - begins
    beginning = _to_a_word(text[:begins], text[begins])
    return f"{beginning} … {_from_a_word(text[-rest:], text[-rest - 1])}"


def _with_shorter_lists(text: str, most: int) -> str:
    """The longest list first, no more than needed, each down to its beginning."""
    for listed in sorted(_lists_in(text), key=len, reverse=True):
        kept = max(_LEAST_WITH_AN_END, len(listed) - (len(text) - most) - 3)
        if len(text) > most and kept < len(listed) - 3:
            shorter = f"{_to_a_word(listed[:kept], listed[kept])} …{listed[-1]}"
            text = text.replace(listed, shorter, 1)
    return text


def _lists_in(text: str) -> Iterator[str]:
    """What stands in brackets, without those around others."""
    opened = -1
    for at, character in enumerate(text):
        if character in "[({":
            opened = at
        elif character in "])}":
            if opened >= 0 and at - opened >= _LEAST_OF_A_LIST:
                yield text[opened : at + 1]
            opened = -1


_MOST_OF_A_WORD = 30  # a longer one is cut


def _to_a_word(text: str, follows: str) -> str:
    words = text.rpartition(" ")
    is_whole = follows == " " or not words[0] or len(words[2]) > _MOST_OF_A_WORD
    return (text if is_whole else words[0]).rstrip(" ,;:")


def _from_a_word(text: str, precedes: str) -> str:
    words = text.partition(" ")
    is_whole = precedes == " " or not words[2] or len(words[0]) > _MOST_OF_A_WORD
    return (text if is_whole else words[2]).lstrip(" ,;")
