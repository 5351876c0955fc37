"""A command with changes applied: the words and variables that a trial runs with.

In: a command, its environment, changes, and what a recorded run shows of it. Out: a `Changed`
command, or a sentence on why a change does not apply. Nothing is run and nothing is written.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rerail.agent import preloadable
from rerail.changes.known import JOINED_BY
from rerail.changes.parse import Change
from rerail.changes.profile import Profile
from rerail.platform.command_line import innermost_at, is_assignment, shell_text_at

CHANGES_VARIABLE = "RERAIL_CHANGES"


class DoesNotApply(Exception):
    """Why a change makes no difference to this command, as a sentence."""


@dataclass(frozen=True)
class Changed:
    command: tuple[str, ...]
    variables: dict[str, str]  # to set on top of the environment
    tree: tuple[Change, ...] = ()  # what makes the program another: it runs in a folder of its own


def apply_changes(
    command: Sequence[str],
    environ: Mapping[str, str],
    changes: Iterable[Change],
    profile: Profile | None = None,
    *,
    has_trees: bool = False,
) -> Changed:
    """Raises DoesNotApply for the first change that would make no difference.

    `has_trees`: the caller runs the command in another folder if `Changed.tree` asks for it.
    """
    profile = profile or Profile()
    words = list(command)
    variables: dict[str, str] = {}
    for_agent: dict[str, str] = {}
    tree: list[Change] = []
    for change in changes:
        if change.kind == "option":
            words = _with_option(words, change)
        elif change.kind == "setting":
            words = _with_setting(words, change)
        elif change.kind == "environment":
            words, found = _with_variable(words, environ, change)
            variables.update(found)
        elif change.needs_environment:
            raise DoesNotApply(
                "it needs an environment of its own, which only isolate and verify build"
            )
        elif change.is_of_tree:
            if not has_trees:
                raise DoesNotApply("only isolate and verify run the program of another revision")
            tree.append(change)
        else:
            _apply_own(change, environ, profile, variables, for_agent)
    if for_agent:
        variables[CHANGES_VARIABLE] = json.dumps(for_agent, sort_keys=True)
    return Changed(tuple(words), variables, tuple(tree))


def _with_option(words: list[str], change: Change) -> list[str]:
    script = shell_text_at(words, innermost_at(words))
    if script is not None:
        changed = _in_script(words[script], change)
        return [*words[:script], changed, *words[script + 1 :]]
    result, is_there = _replace_option(words, change)
    if not is_there:
        return [*words, *_written(change)]
    if result == words:
        raise DoesNotApply(f"the command says {change.text} already")
    return result


def _replace_option(words: list[str], change: Change) -> tuple[list[str], bool]:
    """The words with the option's value replaced wherever it is given."""
    name, values = change.knob, list(change.values)
    result: list[str] = []
    is_there = False
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if at > 1 and word == name:
            is_there = True
            result += _written(change)
            taken = 0
            while taken < len(values) and at < len(words) and not _is_option(words[at]):
                at += 1
                taken += 1
        elif at > 1 and word.startswith(f"{name}=") and name.startswith("--"):
            is_there = True
            result += [f"{name}={values[0]}", *values[1:]] if values else [name]
        else:
            result.append(word)
    return result, is_there


def _written(change: Change) -> list[str]:
    """The option as the user typed it; a program may take only one of the two forms."""
    if change.is_joined and change.values:
        return [f"{change.knob}={change.values[0]}", *change.values[1:]]
    return [change.knob, *change.values]


def _is_option(word: str) -> bool:
    """-1e-3 is a value, -x and --x are options."""
    return re.match(r"--?[A-Za-z]", word) is not None


def _in_script(script: str, change: Change) -> str:
    value = " ".join(shlex.quote(each) for each in change.values)
    given = r"""(?P<between>=|\s+)(?P<value>'[^']*'|"[^"]*"|[^\s;|&]+)"""
    pattern = rf"(?<![\w-]){re.escape(change.knob)}{given}"
    if not change.values or not re.search(pattern, script):
        raise DoesNotApply(
            f"the shell script of the command has no {change.knob} with a value to replace"
        )
    changed = re.sub(pattern, lambda found: f"{change.knob}{found['between']}{value}", script)
    if changed == script:
        raise DoesNotApply(f"the command says {change.text} already")
    return changed


def _with_setting(words: list[str], change: Change) -> list[str]:
    name = change.text.partition("=")[0]
    result = []
    is_there = False
    for at, word in enumerate(words):
        if at and word.lstrip("+~").startswith(f"{change.knob}=") and not word.startswith("-"):
            is_there = True
            prefix = word[: len(word) - len(word.lstrip("+~"))]
            result.append(f"{prefix}{change.knob}={change.value}")
        else:
            result.append(word)
    if not is_there:
        return [*words, f"{name}={change.value}"]
    if result == words:
        raise DoesNotApply(f"the command says {change.text} already")
    return result


def _with_variable(
    words: list[str], environ: Mapping[str, str], change: Change
) -> tuple[list[str], dict[str, str]]:
    """Also where the command sets it itself: `env NAME=value python ...`."""
    assignment = f"{change.knob}={change.value}"
    for at, word in enumerate(words[: innermost_at(words)]):
        if is_assignment(word) and word.startswith(f"{change.knob}="):
            if word == assignment:
                raise DoesNotApply(f"the command says {assignment} already")
            return [*words[:at], assignment, *words[at + 1 :]], {}
    if environ.get(change.knob) == change.value:
        raise DoesNotApply(f"the environment says {assignment} already")
    return words, {change.knob: change.value}


def _apply_own(
    change: Change,
    environ: Mapping[str, str],
    profile: Profile,
    variables: dict[str, str],
    for_agent: dict[str, str],
) -> None:
    own = change.own
    reason = own.applies(profile, change.value)
    if reason is not None:
        raise DoesNotApply(reason)
    for name, template in own.variables.items():
        value = template.replace("{value}", change.value)
        before = variables.get(name, environ.get(name, "")) if name in JOINED_BY else ""
        variables[name] = f"{before}{JOINED_BY[name]}{value}" if before else value
    if own.needs_agent:
        for_agent[own.name] = change.value
    library = own.preloads(profile) if own.preloads else None
    if library:
        named = preloadable(library)
        if named is None:
            raise DoesNotApply(f"LD_PRELOAD cannot name {library}")
        before = variables.get("LD_PRELOAD", environ.get("LD_PRELOAD", ""))
        variables["LD_PRELOAD"] = f"{named}:{before}" if before else named
