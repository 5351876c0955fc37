"""A callback for Lightning, for those who cannot start their training with `rerail run`.

In: what the trainer tells its callbacks. Out: `rerail.step` and `rerail.phase`, which do nothing
where nobody records. Under `rerail run` steps and phases are seen without it; with it the loss and
the number of steps are the trainer's own.
"""

from __future__ import annotations

from typing import Any

from rerail.marks import phase, step

try:
    from lightning.pytorch import Callback
except ImportError:
    try:
        from pytorch_lightning import Callback
    except ImportError as error:
        raise ImportError(
            "rerail.integrations.lightning is for Lightning, which is not installed:"
            " pip install lightning"
        ) from error


class RerailCallback(Callback):  # type: ignore[misc]  # untyped where Lightning is not installed
    """`Trainer(callbacks=[RerailCallback()])`"""

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        total = trainer.max_steps
        step(trainer.global_step, loss, total if total and total > 0 else None)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        phase("train")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        phase("validate")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        phase("train")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        phase("test")

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        phase("predict")
