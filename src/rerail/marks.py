"""`rerail.step` and `rerail.phase`: a program says itself how far it is.

Comes in: a step's number, its loss, the name of a phase. Goes out: the black box of this process,
where the agent of `rerail run` is in it; elsewhere nothing happens at all. Promises: never raises,
never waits for a device, keeps nothing; about a microsecond a call. Imports nothing of rerail, and
no other package: it runs inside trainings.
"""

from __future__ import annotations

import sys
from typing import Any

# Words that people use for the phases of a black box (agent/stub/rerail_layout.py).
_OTHER_WORDS = {
    "training": "train",
    "val": "validate",
    "valid": "validate",
    "validation": "validate",
    "validating": "validate",
    "eval": "validate",
    "evaluate": "validate",
    "evaluation": "validate",
    "testing": "test",
    "save": "saving",
    "checkpoint": "saving",
    "load": "loading",
    "prediction": "predict",
    "inference": "predict",
    "optimizer": "step",
}


class _Nothing:
    """What `phase` gives where nobody records: usable in a `with` all the same."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_NOTHING = _Nothing()


def _step_nowhere(number: int, loss: Any = None, total: int | None = None) -> None:
    """Say that step `number` is done; `total` is how many there will be."""


def _phase_nowhere(name: str) -> Any:
    """Say what begins: train, validate, test, saving ...; in a `with`, until it ends."""
    return _NOTHING


def _marks_in_box() -> tuple[Any, Any]:
    """The two functions that write, or KeyError, AttributeError where there is no agent."""
    box = sys.modules["rerail_box"]
    if box.numbers is None:
        raise KeyError("the agent has not begun")
    layout = sys.modules["rerail_layout"]
    load = sys.modules["rerail_imports"].hook_module
    torch_hooks, progress = load("rerail_hooks_torch"), load("rerail_hooks_progress")
    step_ended, note_loss, put = (
        torch_hooks.step_ended,
        torch_hooks.note_loss,
        progress.put_progress,
    )
    counted, at_phase = layout.WORD["optimizer_steps"], layout.WORD["phase"]
    codes = {name: code for code, name in enumerate(layout.PHASES) if name}
    codes |= {word: codes[name] for word, name in _OTHER_WORDS.items()}
    unknown = layout.UNKNOWN
    ours = [0, 0]  # the count as we left it, how many of it are ours; -1: somebody else counts

    def step(number: int, loss: Any = None, total: int | None = None) -> None:
        try:
            if loss is not None:
                if type(loss) is not float:
                    loss = _as_float(loss)
                if loss is not None:
                    note_loss(loss)
            numbers = box.numbers
            if ours[1] >= 0:
                if numbers[counted] == ours[0]:
                    step_ended()
                    ours[0] += 1
                    ours[1] += 1
                else:  # an optimizer's hook counts too
                    numbers[counted] -= ours[1]
                    ours[1] = -1
            put("step", int(number), unknown if total is None else int(total))
        except Exception as error:
            _note_once(box, "rerail.step", error)

    class Phase:
        __slots__ = ("before",)

        def __init__(self, before: int) -> None:
            self.before = before

        def __enter__(self) -> Phase:
            return self

        def __exit__(self, *_: object) -> None:
            box.numbers[at_phase] = self.before

    def phase(name: str) -> Any:
        try:
            before = box.numbers[at_phase]
            box.numbers[at_phase] = codes[name if name in codes else name.strip().lower()]
            return Phase(before)
        except Exception as error:
            _note_once(box, "rerail.phase", error)
            return _NOTHING

    step.__doc__, phase.__doc__ = _step_nowhere.__doc__, _phase_nowhere.__doc__
    return step, phase


def _as_float(loss: Any) -> float | None:
    """None for what lies on a device: to read it would wait for all that it computes."""
    if hasattr(loss, "device") and not getattr(loss, "is_cpu", False):
        return float(loss) if type(loss).__module__ == "numpy" else None
    return float(loss)


_noted: set[str] = set()


def _note_once(box: Any, what: str, error: Exception) -> None:
    if what not in _noted:
        _noted.add(what)
        box.note_failure(what, error)


step, phase = _step_nowhere, _phase_nowhere


def look_for_agent() -> None:
    """Once more, where the agent has come into a process that runs already."""
    global step, phase
    try:
        step, phase = _marks_in_box()
    except Exception:  # not recorded
        return
    package = sys.modules.get("rerail")
    if package is not None:  # who has asked it before holds what does nothing
        package.__dict__.update(step=step, phase=phase)


look_for_agent()
