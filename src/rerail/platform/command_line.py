"""What does a command line run, behind wrappers, shells and launchers?

In: words, as a process would get them. Out: positions in these words, or the words of the inner
command. Pure: no file is read and nothing is looked for on PATH (`interpreter` does that, layer by
layer with these functions). Promises: any words are answered, and what cannot be told is left as it
stands: the command itself is then the innermost one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rerail.platform.wrapper_table import (
    CONDA_TOOLS,
    LAUNCHER_FLAGS,
    LAUNCHER_MODULE_FLAGS,
    LAUNCHER_MODULES,
    LAUNCHER_PROGRAM_FLAGS,
    LAUNCHERS,
    PROJECT_TOOLS,
    RANK_COUNT_OPTIONS,
    SHELL_WORDS,
    SHELLS,
    WRAPPERS,
    Wrapper,
)

_PYTHON = re.compile(r"(?:python|pypy)(?:\d{1,4}(?:\.\d{1,4}){0,2})?[dt]{0,2}(?:-dbg)?(?:\.exe)?")
_SHELL_TEXT = re.compile(r"-[a-z]{0,20}c[a-z]{0,20}")
_PYTHON_OPTIONS_WITH_VALUE = "WXQ"
_MOST_LAYERS = 16
_MOST_TEXT = 65536  # characters of a shell's text


class PythonCall(NamedTuple):
    """The words of an interpreter: its flags, and what it is told to run."""

    flags: str  # letters of its options without a value, in order
    kind: str  # "script", "module", "code", or "" where it reads standard input
    target: str
    arguments_at: int  # where the arguments of the program begin


def program_name(word: str) -> str:
    """The last part of a program's path, without a login shell's dash."""
    return word.rpartition("/")[2].lstrip("-")


def is_python(word: str) -> bool:
    return _PYTHON.fullmatch(program_name(word)) is not None


def is_shell(word: str) -> bool:
    return program_name(word) in SHELLS


def is_assignment(word: str) -> bool:
    """NAME=value, in front of a command."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isascii() and name.isidentifier()


def inner_at(words: Sequence[str], at: int = 0) -> int | None:
    """Where the command begins that the wrapper at `at` runs; None if no wrapper is there.

    `len(words)` means that a wrapper stands there without a command.
    """
    if at >= len(words):
        return None
    if is_assignment(words[at]) or words[at] in SHELL_WORDS:
        return at + 1
    name = program_name(words[at])
    wrapper = WRAPPERS.get(name) or PROJECT_TOOLS.get(name) or CONDA_TOOLS.get(name)
    if wrapper is None:
        return None
    start = at + 1
    if wrapper.verbs:
        verb = next((i for i in range(start, len(words)) if words[i] in wrapper.verbs), None)
        if verb is None:
            return None  # `uv pip install …`: it runs no command of the user's
        start = verb + 1
    start = _after_options(words, start, wrapper)
    if name == "env":
        while start < len(words) and is_assignment(words[start]):
            start += 1
            start = _after_options(words, start, wrapper)
    return min(start + wrapper.positions, len(words))


def _after_options(words: Sequence[str], at: int, wrapper: Wrapper) -> int:
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        at += 1
        if word == "--":
            break
        at += _values_after(word, wrapper)
    return at


def _values_after(option: str, wrapper: Wrapper) -> int:
    if option in wrapper.with_value:
        return wrapper.with_value[option]
    if option.startswith("--") or wrapper.has_long_short_options:
        return 0
    for position, letter in enumerate(option[1:], 1):
        if f"-{letter}" in wrapper.with_value:  # as getopt has it: -vk 5, but -k5
            return int(position + 1 == len(option))
    return 0


def split_env_at(words: Sequence[str], at: int = 0) -> int | None:
    """Where the text of `env -S TEXT` is, which env splits into words itself."""
    if at >= len(words) or program_name(words[at]) != "env":
        return None
    for place in range(at + 1, len(words) - 1):
        if words[place] in ("-S", "--split-string"):
            return place + 1
        if not words[place].startswith("-"):
            return None
    return None


def shell_text_at(words: Sequence[str], at: int = 0) -> int | None:
    """Where the text of `sh -c TEXT` is."""
    if at >= len(words) or not is_shell(words[at]):
        return None
    for place in range(at + 1, len(words) - 1):
        if _SHELL_TEXT.fullmatch(words[place]):
            return place + 1
        if not words[place].startswith(("-", "+")):
            return None
    return None


def innermost_at(words: Sequence[str]) -> int:
    """Where the innermost command begins, as far as it is written in words of its own."""
    at = 0
    for _ in range(_MOST_LAYERS):
        inner = None if split_env_at(words, at) else inner_at(words, at)
        if inner is None:
            break
        at = inner
    return at


def innermost(words: Sequence[str]) -> list[str]:
    """The innermost command, also the one in the text of a shell; [] if a wrapper has none."""
    rest = list(words)
    for _ in range(_MOST_LAYERS):
        rest = rest[innermost_at(rest) :]
        split, text = split_env_at(rest), shell_text_at(rest)
        if split is not None:
            rest = [*split_words(rest[split]), *rest[split + 1 :]]
        elif text is not None:
            rest = python_command_of(rest[text])
        else:
            break
    if rest and rest[0].endswith(".py") and len(rest) < len(words):  # `uv run train.py`
        return ["python", *rest]
    return rest


def programs(words: Sequence[str]) -> list[str]:
    """Names of all programs on the way to the innermost one, which is the last."""
    return [program_name(layer[at]) for layer, at in _layers(words)]


def _layers(words: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
    """Each command on the way to the innermost one: the words it is written in, and where."""
    at: int | None = 0
    for _ in range(_MOST_LAYERS):
        if at is None or at >= len(words):
            return
        yield words, at
        text = shell_text_at(words, at)
        if text is None:
            at = inner_at(words, at)
        else:
            words, at = python_command_of(words[text]), 0


def rank_count(words: Sequence[str]) -> int:
    """Ranks on this machine, as the options of the launchers say; 1 where none says so."""
    count = 1
    for layer, at in _layers(words):
        name, start, end = program_name(layer[at]), at + 1, inner_at(layer, at)
        launcher = launcher_of(layer, at)
        if launcher is not None:
            name, start = launcher
            target = launched(layer, start)
            end = None if target is None else target.arguments_at - 1
        given = _value_of(RANK_COUNT_OPTIONS.get(name, frozenset()), layer[start:end])
        count *= max(1, int(given)) if given.isdecimal() and len(given) < 6 else 1
    return count


def _value_of(options: frozenset[str], words: Sequence[str]) -> str:
    """What one of these options is given, as `--option VALUE` or `--option=VALUE`; else ""."""
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option.replace("_", "-") in options:
            return value if equals else "".join(words[place + 1 : place + 2])
    return ""


def commands_of(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell's text, without redirections.

    A line that cannot be split into words is passed over.
    """
    for line in text[:_MOST_TEXT].replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()")
        lexer.whitespace_split = True
        words: list[str] = []
        is_redirection = False
        try:
            for token in lexer:
                if is_redirection:
                    is_redirection = False  # the file that `>` names
                elif token.strip("<>&") == "" and ("<" in token or ">" in token):
                    is_redirection = True
                    if words and words[-1].isdecimal():  # 2>&1
                        words.pop()
                elif token.strip(";&|()") == "":
                    if words:
                        yield words
                    words = []
                else:
                    words.append(token)
        except ValueError:  # a quotation that ends on another line
            continue
        if words:
            yield words


def python_command_of(text: str) -> list[str]:
    """The last command that starts a Python, directly or behind a wrapper; else the first one."""
    first: list[str] = []
    found: list[str] = []
    for words in commands_of(text):
        first = first or words
        if any(is_python(word) or program_name(word) in LAUNCHERS for word in words):
            found = words
    return found or first


def split_words(text: str) -> list[str]:
    """As a shell would split them; [] where a quotation does not end."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return []


def python_call(words: Sequence[str], at: int = 0) -> PythonCall | None:
    """The interpreter's own options end at the script, -c, -m or a lone dash."""
    if at >= len(words) or not is_python(words[at]):
        return None
    flags = ""
    at += 1
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("-"):
            return PythonCall(flags, "script", word, at)
        if word == "-":
            return PythonCall(flags, "", "", at)
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        for position, letter in enumerate(word[1:], 1):
            attached = word[position + 1 :]
            if letter in "cm":
                target = attached or (words[at] if at < len(words) else "")
                after = at if attached else min(at + 1, len(words))
                return PythonCall(flags, "code" if letter == "c" else "module", target, after)
            if letter in _PYTHON_OPTIONS_WITH_VALUE:
                at += not attached
                break
            flags += letter
    if at < len(words):
        return PythonCall(flags, "script", words[at], at + 1)
    return PythonCall(flags, "", "", min(at, len(words)))


def launcher_of(words: Sequence[str], at: int = 0) -> tuple[str, int] | None:
    """The launcher that the command at `at` is, and where its own arguments begin.

    `torchrun …`, `python -m torch.distributed.run …`, and `python /venv/bin/torchrun …`, which is
    how the kernel shows a script that was started by name.
    """
    if at >= len(words):
        return None
    name, start = program_name(words[at]), at + 1
    call = python_call(words, at)
    if call is not None:
        start = call.arguments_at
        is_known = call.kind == "module" and call.target in LAUNCHER_MODULES
        name = LAUNCHER_MODULES[call.target] if is_known else program_name(call.target)
        if not is_known and (call.kind != "script" or name not in LAUNCHERS):
            return _by_file(call)
    elif name not in LAUNCHERS:
        return None
    elif name == "accelerate":
        if words[start : start + 1] != ["launch"]:
            return None
        start += 1
    return name, start


def _by_file(call: PythonCall) -> tuple[str, int] | None:
    """`python …/torch/distributed/run.py`: the module's file in place of its name."""
    if call.kind != "script":
        return None
    dotted = call.target.removesuffix(".py").replace("/", ".")
    for module, name in LAUNCHER_MODULES.items():
        if dotted.endswith(module):
            return name, call.arguments_at
    return None


def launched(words: Sequence[str], at: int) -> PythonCall | None:
    """What a launcher, whose arguments begin at `at`, runs; None where it names nothing.

    The kind is "program" for what it runs without an interpreter.
    """
    kind = "script"
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            return PythonCall("", kind, word, at)
        option = word.replace("_", "-")
        if option in LAUNCHER_MODULE_FLAGS:
            kind = "module"
        elif option in LAUNCHER_PROGRAM_FLAGS:
            kind = "program"
        elif "=" not in word and option not in LAUNCHER_FLAGS:
            # A flag that is not in the table is told by what follows it.
            at += not (at < len(words) and words[at].endswith(".py"))
    return None


def program_call(words: Sequence[str]) -> PythonCall | None:
    """The user's own program in these words: past wrappers, launchers and the interpreter.

    None where a shell's text comes between, or no Python is named. `arguments_at` counts in
    `words`, so that what comes after it are the program's own arguments.
    """
    at = innermost_at(words)
    if at and at < len(words) and words[at].endswith(".py"):  # `uv run train.py`
        return PythonCall("", "script", words[at], at + 1)
    launcher = launcher_of(words, at)
    return python_call(words, at) if launcher is None else launched(words, launcher[1])


def program_in_words(words: Sequence[str]) -> str:
    """ "prepare.py" of `python /data/prepare.py --fast`, "python -m x", "tar": what was started."""
    call = program_call(words)
    if call is not None and call.kind == "script":
        return call.target.rpartition("/")[2]
    if call is not None and call.kind == "module":
        return f"python -m {call.target}"
    return program_name(words[0]) if words and call is None else ""
