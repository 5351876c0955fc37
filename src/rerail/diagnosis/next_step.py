"""Which experiment would tell the leading causes apart?

In: the candidates and, for a recorded run, its command. Out: a sentence and, where rerail can run
the experiment, the command to type. An experiment is worth naming when its result differs between
the leader and what competes with it; with one clear leader it is the one that would prove it.
"""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Sequence

from rerail.diagnosis.result import Candidate, NextStep

WORTH_TELLING = 0.15  # a rival that is less likely is not worth an experiment


def next_step(candidates: Sequence[Candidate], command: Sequence[str]) -> NextStep | None:
    if not candidates:
        return None
    leader = candidates[0]
    experiments = leader.cause.experiments
    if not experiments:
        rival = candidates[1] if len(candidates) > 1 else None
        if rival is None or rival.probability < WORTH_TELLING or not rival.cause.experiments:
            return None
        experiments, leader = rival.cause.experiments, rival
    experiment = experiments[0]
    changes = [change for each in experiments[:3] for change in each.change]
    text = experiment.expect
    rivals = [c for c in candidates[1:3] if c.probability >= 0.05 and c is not leader]
    if rivals:
        names = " or ".join(rival.cause.id for rival in rivals)
        text = f"{text} If the run fails after that too, the cause is probably {names}."
    return NextStep(text, _command_line(changes, command))


def _command_line(changes: Sequence[str], command: Sequence[str]) -> str | None:
    if not changes or importlib.util.find_spec("rerail.cli.isolate") is None:
        return None
    tries = " ".join(f"--try {shlex.quote(change)}" for change in dict.fromkeys(changes))
    target = shlex.join(command) if command else "YOUR COMMAND"
    return f"rerail isolate {tries} -- {target}"
