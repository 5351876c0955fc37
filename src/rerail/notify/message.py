"""What is said: a few lines that a tired person reads on a phone. Pure.

In: what is known of a run, an experiment or a study, with secrets and names masked already. Out: a
`Message`: the fact first, then how far, when and where, then the command to type. Promises: bounded
in every part; a message about what went well is one line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rerail.platform.os_text import is_printable, printable_line
from rerail.wording import cut, duration_in_words, percent

if TYPE_CHECKING:
    from rerail.diagnosis import Candidate, Diagnosis

EVENTS = ("death", "stall", "proof", "end")

MOST_HEADLINE = 300
MOST_LINE = 300
MOST_TEXT = 1500
SCHEMA = 1


@dataclass(frozen=True)
class Message:
    event: str  # one of EVENTS
    headline: str
    details: tuple[str, ...] = ()
    next_command: str = ""
    fields: dict[str, Any] = field(default_factory=dict)  # for programs: step, host, run, cause

    @property
    def body(self) -> str:
        """All but the headline."""
        lines = [*self.details, *([self.next_command] if self.next_command else [])]
        return cut("\n".join(lines), MOST_TEXT - MOST_HEADLINE)

    @property
    def text(self) -> str:
        return f"{self.headline}\n{self.body}".strip()

    def to_json(self) -> dict[str, Any]:
        """What a plain webhook gets."""
        return {
            "schema": SCHEMA,
            "event": self.event,
            "headline": self.headline,
            "text": self.text,
            "next": self.next_command or None,
            **self.fields,
        }

    def variables(self) -> dict[str, str]:
        """What a command gets in its environment, beside the text on its standard input."""
        known = {
            "EVENT": self.event,
            "HEADLINE": self.headline,
            "NEXT": self.next_command,
            "STEP": self.fields.get("step"),
            "HOST": self.fields.get("host"),
            "RUN_ID": self.fields.get("run"),
            "LABEL": self.fields.get("label"),
            "CAUSE": (self.fields.get("cause") or {}).get("id"),
        }
        return {
            f"RERAIL_{name}": cut(printable_line(str(value)), MOST_LINE)
            for name, value in known.items()
            if value is not None
        }


def of_death(about: Mapping[str, Any], diagnosis: Diagnosis, remark: str = "") -> Message:
    """`about`: the run's own fields; `remark`: what follows its diagnosis."""
    fact, leading, step = diagnosis.headline, diagnosis.leading, diagnosis.next_step
    fields = _fields(about, diagnosis.facts.get("last_step"), leading)
    command = (step.command if step else "") or ""
    if not command or not can_be_typed(command):
        command = f"rerail explain {about['short']}"
    details = [_line(_cause(leading), *_progress(about, fields["step"]), *_whereabouts(about))]
    if remark:
        details.append(cut(printable_line(remark), MOST_LINE))
    if fact.startswith("It "):
        fact = f"it {fact[3:]}"
    how = "exit code 0, but" if diagnosis.outcome.kind == "ok" else "died"
    return Message("death", _headline(f"{how}: {fact}"), tuple(details), command, fields)


def of_stall(
    about: Mapping[str, Any],
    silent_seconds: float,
    hung_in: str,
    step: int | None,
    *,
    is_last: bool,
) -> Message:
    """`hung_in`: "in hang.py:7 save(), waiting for a lock", where that is known."""
    where = hung_in or "without a step or output"
    details = [_line(*_progress(about, step), *_whereabouts(about))]
    if is_last:
        details.append("further stalls of this run are not sent")
    return Message(
        "stall",
        _headline(f"stuck for {duration_in_words(silent_seconds)} {where}"),
        tuple(details),
        f"rerail stacks {about['short']}",
        _fields(about, step),
    )


def of_rank(about: Mapping[str, Any], text: str, step: int | None, *, is_last: bool) -> Message:
    """`text`: which rank the others wait for, and where it is."""
    details = [_line(*_progress(about, step), *_whereabouts(about))]
    if is_last:
        details.append("further messages about ranks of this run are not sent")
    return Message(
        "stall",
        _headline(text),
        tuple(details),
        f"rerail stacks {about['short']}",
        _fields(about, step),
    )


def of_success(about: Mapping[str, Any], finish: str, step: int | None = None) -> Message:
    """`finish`: the line that stands in the terminal at the end. Nothing is left to be done."""
    label = f" ({about['label']})" if about.get("label") else ""
    return Message(
        "end", _headline(f"{finish}{label} on {about['host']}"), fields=_fields(about, step)
    )


def of_experiment(asked: Mapping[str, Any]) -> Message:
    """An investigation, a verification or a study: its first sentence, and what to type next."""
    fields = {name: asked.get(name) for name in ("host", "run", "label")}
    fields |= {"what": asked.get("what"), "status": asked.get("status")}
    fields["at"] = _utc(time.time())
    details = [_line(*_texts(asked.get("details")), f"on {asked.get('host')}")]
    return Message(
        str(asked.get("event")),
        _headline(f"{asked.get('what')}: {asked.get('headline')}"),
        tuple(details),
        str(asked.get("next") or ""),
        fields,
    )


def can_be_typed(command: str) -> bool:
    """In one line, by somebody with little patience."""
    return len(command) <= MOST_LINE and is_printable(command)


def _headline(text: str) -> str:
    return cut(printable_line(text), MOST_HEADLINE)


def _line(*parts: str) -> str:
    return cut(" · ".join(printable_line(part) for part in parts if part), MOST_LINE)


def _cause(leading: Candidate | None) -> str:
    return f"{leading.id} {percent(leading.probability)}" if leading is not None else ""


def _progress(about: Mapping[str, Any], step: object) -> list[str]:
    elapsed = about.get("elapsed_seconds")
    parts = [f"step {step:,}"] if isinstance(step, int) else []
    if isinstance(elapsed, (int, float)):
        parts.append(f"after {duration_in_words(elapsed)}")
    return parts


def _whereabouts(about: Mapping[str, Any]) -> list[str]:
    label = f" ({about['label']})" if about.get("label") else ""
    at = time.strftime("%a %H:%M UTC", time.gmtime(about["at_unix"]))
    return [at, str(about["host"]), f"run {about['short']}{label}"]


def _fields(
    about: Mapping[str, Any], step: object, leading: Candidate | None = None
) -> dict[str, Any]:
    return {
        "step": step if isinstance(step, int) else None,
        "host": about["host"],
        "run": about["id"],
        "label": about.get("label"),
        "at": _utc(about["at_unix"]),
        "elapsed_seconds": about.get("elapsed_seconds"),
        "cause": {"id": leading.id, "probability": leading.probability} if leading else None,
    }


def _utc(unix: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix))


def _texts(value: object) -> Sequence[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else ()
