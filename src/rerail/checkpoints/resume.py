"""The arguments that make a command go on from a checkpoint.

In: `--resume-args` as typed, such as '--resume {checkpoint}' or 'CHECKPOINT={checkpoint}'. Out: the
command with them, where an argument that it has already gets the new value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rerail.changes import Change, Changed, ChangeKind, DoesNotApply, apply_changes
from rerail.errors import UsageError

PLACEHOLDER = "{checkpoint}"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_EXAMPLE = "Write it as, for example: --resume-args '--resume {checkpoint}'"


@dataclass(frozen=True)
class ResumeArguments:
    changes: tuple[Change, ...]
    plain: tuple[str, ...] = ()  # words without a name, put at the end

    @property
    def names_checkpoint(self) -> bool:
        words = [*self.plain, *(value for change in self.changes for value in change.values)]
        return any(PLACEHOLDER in word for word in words)

    def apply(
        self, command: Sequence[str], environ: Mapping[str, str], checkpoint: Path
    ) -> Changed:
        """Raises DoesNotApply where there is no place for them."""
        path = str(checkpoint)
        path = f"./{path}" if path.startswith("-") else path
        words, variables = tuple(command), dict[str, str]()
        for change in self.changes:
            values = tuple(value.replace(PLACEHOLDER, path) for value in change.values)
            text = f"{change.knob} {' '.join(values)}"
            if change.kind == "setting":
                text = f"{change.text.partition('=')[0]}={' '.join(values)}"
            filled = replace(change, text=text, values=values)
            try:
                changed = apply_changes(words, environ, [filled])
            except DoesNotApply as error:
                if "already" in str(error):
                    continue
                raise
            words = changed.command
            variables.update(changed.variables)
        plain = (word.replace(PLACEHOLDER, path) for word in self.plain)
        return Changed((*words, *plain), variables)


def parse_resume_arguments(text: str) -> ResumeArguments:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--resume-args {text!r} cannot be read: {error}", _EXAMPLE) from None
    if not words:
        raise UsageError("--resume-args is empty", _EXAMPLE)
    changes: list[Change] = []
    plain: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-") and name.strip("-"):
            values = (value,) if equals else ()
            changes.append(Change(word, "option", name, values, is_joined=bool(equals)))
        elif changes and changes[-1].kind == "option" and not plain:
            last = changes[-1]
            changes[-1] = replace(last, values=(*last.values, word))
        elif equals and name:
            kind: ChangeKind = "environment" if _VARIABLE.fullmatch(name) else "setting"
            changes.append(Change(word, kind, name.lstrip("+~"), (value,)))
        else:
            plain.append(word)
    return ResumeArguments(tuple(changes), tuple(plain))


def checked_resume(
    command: Sequence[str],
    environ: Mapping[str, str],
    pattern: str | None,
    resume_args: str | None,
) -> ResumeArguments | None:
    """Whether the command can be told, before a night is spent on running it."""
    example = "For example: --checkpoint 'out/*.pt' --resume-args '--resume {checkpoint}'"
    if pattern is not None and resume_args is None:
        raise UsageError("--checkpoint needs --resume-args: how the command is told", example)
    if resume_args is None:
        return None
    resume = parse_resume_arguments(resume_args)
    if pattern is None:
        raise UsageError("--resume-args needs --checkpoint: where the checkpoints are", example)
    try:
        resume.apply(command, environ, Path("checkpoint"))
    except DoesNotApply as error:
        raise UsageError(
            f"--resume-args cannot be given to this command: {error}",
            "Give it as a variable that the script reads: --resume-args 'RESUME={checkpoint}'",
        ) from None
    return resume
