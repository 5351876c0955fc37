"""What was happening when it ended, in a few lines.

In: the `facts` and the `outcome` of a diagnosis. Out: sentences. Only what was observed is said.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from rerail.records import Outcome
from rerail.wording import bytes_in_words, cut, place_in_words, thread_in_words

_PROGRESS = (("epoch", "epoch"), ("last_step", "step"), ("phase", "phase"), ("loss", "loss"))
_SHOWN_FOLDERS = 3
_MOST_CODE = 60

STOPPED_BY_GATE = "It was stopped as --on-gate stop asks; no fault was looked for."


def what_was_happening(facts: dict[str, Any], outcome: Outcome) -> list[tuple[str, str]]:
    """What the line is about, and the line."""
    lines = []
    if where := _where(facts):
        lines.append(("where", " · ".join(where)))
    if leaked := _leaked(facts):
        lines.append(("what", leaked))
    progress = [
        f"{word} {_number(facts[name])}{_in_optimizer_steps(facts) if word == 'step' else ''}"
        for name, word in _PROGRESS
        if facts.get(name) is not None
    ]
    if progress:
        edge = _after_the_last_step(facts) if outcome.kind != "ok" else ""
        lines.append(("when", ", ".join(progress) + ("." + edge if edge else "")))
    if facts.get("peak_rss_bytes") and facts.get("memory_limit_bytes"):
        peak, limit = (
            bytes_in_words(facts[f"{name}_bytes"]) for name in ("peak_rss", "memory_limit")
        )
        lines.append(("memory", f"peak {peak} of a limit of {limit}"))
    if facts.get("killed_from_outside") and outcome.signal == "SIGKILL":
        lines.append(
            (
                "who",
                f"{facts['killed_from_outside']} Somebody else sent the signal: a person, a"
                " script, a scheduler or a supervisor.",
            )
        )
    if facts.get("recorded_runs", 1) > 1 and outcome.kind in ("signal", "hang"):
        lines.append(("history", str(facts["history"])))
    return lines


def _leaked(facts: dict[str, Any]) -> str:
    """ "1,212 tensors (64, 512) are new since step 100, held by the list `losses` of train()"."""
    leak = facts.get("leak") or {}
    if not leak.get("what"):
        return ""
    since = f" since step {leak['since_step']:,}" if leak.get("since_step") is not None else ""
    text = f"{leak['what']} are new{since}"
    holder = leak.get("holder") or {}
    if holder.get("name"):
        text += f", held by the {holder.get('kind', 'variable')} `{holder['name']}`"
        if place := place_in_words(holder, _shortened):
            text += f" ({place})"
    return text


def _in_optimizer_steps(facts: dict[str, Any]) -> str:
    """With accumulation the progress bar counts batches, and the history optimizer steps."""
    steps = facts.get("optimizer_steps")
    return f" (optimizer step {steps})" if steps and steps != facts["last_step"] else ""


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _after_the_last_step(facts: dict[str, Any]) -> str:
    """Deaths at the edge of an epoch belong to what comes next: evaluation, a save, new data."""
    step, total, epoch = (facts.get(name) for name in ("last_step", "total", "epoch"))
    if not (isinstance(step, int) and isinstance(total, int) and isinstance(epoch, (int, float))):
        return ""
    if step < total - 1 or total < 2:
        return ""
    return (
        f" All steps of epoch {epoch:g} were done. The run ended after them, before the first step"
        f" of epoch {epoch + 1:g}."
    )


def _where(facts: dict[str, Any]) -> list[str]:
    """The user's own code first, then native code, then who it was."""
    found = facts.get("where") or {}
    place = place_in_words(found, _shortened)
    code = " ".join(str(found.get("code") or "").split())
    where = [f"{place}: {cut(code, _MOST_CODE)}" if code else place] if place else []
    if not where and facts.get("raised_at"):
        where.append(_shortened(str(facts["raised_at"])))
    if facts.get("library"):
        inside = f" in {facts['function']}" if facts.get("function") else ""
        where.append(f"library {facts['library']}{inside}")
    if facts.get("crashed_thread"):
        where.append(thread_in_words(str(facts["crashed_thread"])))
    if facts.get("failed_first"):
        where.append(f"{facts['failed_first']} failed first{_echoes(facts)}")
    elif found.get("process"):
        where.append(str(found["process"]))
    if facts.get("stuck_process"):
        where.append(f"stuck: {facts['stuck_process']}")
    return where


def _echoes(facts: dict[str, Any]) -> str:
    others = [str(who) for who in facts.get("echoes") or ()]
    if not others:
        return ""
    names = others[0] if len(others) == 1 else f"{len(others)} others"
    return f" (what {names} said is its echo)"


def _shortened(place: str) -> str:
    """The last folders of a long path are enough to find the file."""
    path, separator, rest = place.partition(":")
    parts = PurePosixPath(path).parts
    if len(path) > 40 and len(parts) > _SHOWN_FOLDERS:
        path = "…/" + "/".join(parts[-_SHOWN_FOLDERS:])
    return path + separator + rest
