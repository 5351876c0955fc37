"""A callback for Hugging Face's Trainer, for those who cannot start it with `rerail run`.

In: what the Trainer tells its callbacks. Out: `rerail.step` and `rerail.phase`, which do nothing
where nobody records. The loss is the one that the Trainer logs: it is fetched from the device then
and at no other time.
"""

from __future__ import annotations

from typing import Any

from rerail.marks import phase, step

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        "rerail.integrations.huggingface is for transformers, which is not installed:"
        " pip install transformers"
    ) from error


class RerailCallback(TrainerCallback):  # type: ignore[misc]  # untyped where it is not installed
    """`Trainer(callbacks=[RerailCallback()])`"""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step(state.global_step, None, state.max_steps if state.max_steps > 0 else None)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            step(state.global_step, logs["loss"], state.max_steps if state.max_steps > 0 else None)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        phase("train")

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        phase("validate")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        phase("train")  # told when it is over

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        phase("train")
