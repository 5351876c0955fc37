"""How far a run has come from a guess to a proof: found, confirmed, proven, and the fix to copy.

In: the diagnosis, what `isolate` and `verify` kept with the run, and the run's command. Out:
`Proof`, which stands above everything else on the page. Promises: what an experiment has settled is
said before what was only probable, and nothing asks for an experiment that has been made.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rerail.changes import DoesNotApply, apply_changes, parse_change
from rerail.errors import RerailError
from rerail.report.document import Proof, Stage
from rerail.report.experiments import INVESTIGATION, VERIFICATION
from rerail.report.verdict import as_list, as_object, as_text
from rerail.wording import counted, listed, percent

if TYPE_CHECKING:
    from rerail.diagnosis import Candidate, Diagnosis

_OWN_VARIABLE = "RERAIL_"
# What an investigation that confirmed nothing says of itself, in two or three words.
_NOT_CONFIRMED = {
    "none-of-these": "none of the changes",
    "not-reproduced": "did not come back",
    "inconclusive": "not decided yet",
}


def proof_of(
    diagnosis: Diagnosis, experiments: dict[str, Any], command: Sequence[str]
) -> Proof | None:
    """None for a run that has no cause and about which nobody has asked."""
    causes = diagnosis.causes
    investigation = as_object(experiments.get(INVESTIGATION))
    verification = as_object(experiments.get(VERIFICATION))
    if not causes and not investigation and not verification:
        return None
    stages = [_found(causes), _confirmed(investigation, verification), _proven(verification)]
    answer, is_good = _answer(investigation, verification)
    proof = Proof(stages, answer, is_good)
    changes = _fix(investigation, verification)
    if changes:
        said = as_list(verification.get("command")) or as_list(investigation.get("command"))
        words = [str(word) for word in said] or list(command)
        is_proven = as_text(verification.get("status")) == "proven"
        return _with_fix(proof, changes, words, is_proven)
    if answer:
        return proof  # an experiment that was made is not proposed again
    step = diagnosis.next_step
    return _asking(proof, step.text, step.command or "") if step else proof


def is_settled(proof: Proof | None) -> bool:
    """Whether an experiment has said more than the diagnosis can."""
    return proof is not None and bool(proof.answer)


def _found(causes: Sequence[Candidate]) -> Stage:
    if not causes:
        return Stage("found", "open", "no known cause")
    return Stage("found", "done", f"{causes[0].id} {percent(causes[0].probability)}")


def _confirmed(investigation: dict[str, Any], verification: dict[str, Any]) -> Stage:
    status = as_text(investigation.get("status"))
    if status == "confirmed":
        return Stage("confirmed", "done", _percent(investigation.get("confidence")))
    if status:
        text = _NOT_CONFIRMED.get(status, status)
        return Stage("confirmed", "failed" if status == "none-of-these" else "open", text)
    is_proven = as_text(verification.get("status")) == "proven"
    return Stage("confirmed", "open", "not needed" if is_proven else "not yet")


def _proven(verification: dict[str, Any]) -> Stage:
    status = as_text(verification.get("status"))
    if status == "proven":
        return Stage("proven", "done", _percent(verification.get("confidence")))
    if status == "refuted":
        return Stage("proven", "failed", "refuted")
    return Stage("proven", "open", "not enough runs yet" if status else "not yet")


def _answer(investigation: dict[str, Any], verification: dict[str, Any]) -> tuple[str, bool]:
    """The sentence that stands first; empty while nothing is settled."""
    said = [line for line in as_list(verification.get("summary")) if isinstance(line, str)]
    status = as_text(verification.get("status"))
    if status in ("proven", "refuted"):
        return (said[0] if said else status.capitalize() + "."), status == "proven"
    status = as_text(investigation.get("status"))
    figure = _percent(investigation.get("confidence"))
    trials = counted(len(as_list(investigation.get("trials"))), "trial")
    sure = f" ({figure} sure after {trials})" if figure else f" ({trials})"
    if status == "confirmed":
        changes = [str(change) for change in as_list(investigation.get("changes"))]
        verb = "removes" if len(changes) < 2 else "together remove"
        return f"Confirmed by experiment: {listed(changes)} {verb} the failure{sure}.", True
    if status == "none-of-these":
        return f"It fails whatever of the tried changes is made{sure}.", False
    return "", True


def _fix(investigation: dict[str, Any], verification: dict[str, Any]) -> list[str]:
    """The changes that stand: those of a proof, else those confirmed and not refuted since."""
    status = as_text(verification.get("status"))
    tested = [str(change) for change in as_list(verification.get("changes"))]
    if status == "proven":
        return tested
    if as_text(investigation.get("status")) == "confirmed":
        changes = [str(change) for change in as_list(investigation.get("changes"))]
        return [] if status == "refuted" and changes == tested else changes
    return []


def _with_fix(proof: Proof, changes: list[str], command: list[str], is_proven: bool) -> Proof:
    fix = fixed_command(command, changes)
    steps = [] if fix is None else [("the fix", fix)]
    if not is_proven:
        options = " ".join(f"--with {shlex.quote(change)}" for change in changes)
        steps.append(("prove it", f"rerail verify {options} -- {shlex.join(command)}"))
    return Proof(proof.stages, proof.answer, proof.is_good, changes, steps)


def _asking(proof: Proof, text: str, command: str) -> Proof:
    steps = [(text.rstrip(".:"), command)] if text else []
    return Proof(proof.stages, proof.answer, proof.is_good, [], steps)


def fixed_command(command: Sequence[str], changes: Sequence[str]) -> str | None:
    """The command with the changes in it, as it would be typed; None if rerail itself makes them.

    A change by one of rerail's own names is made inside the process: no command line says it.
    """
    try:
        changed = apply_changes(command, {}, [parse_change(text) for text in changes])
    except (DoesNotApply, RerailError):
        return None
    if any(name.startswith(_OWN_VARIABLE) for name in changed.variables):
        return None
    settings = [f"{name}={shlex.quote(value)}" for name, value in changed.variables.items()]
    return " ".join([*settings, "rerail run --", shlex.join(changed.command)])


def _percent(share: object) -> str:
    return percent(share, 1) if isinstance(share, (int, float)) else ""
