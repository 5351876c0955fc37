"""Hooks on what tells of progress: tqdm, Lightning, Hugging Face's Trainer."""

from time import monotonic_ns

import rerail_box as box
import rerail_layout as layout
import rerail_native as native
from rerail_box import floats, numbers  # noqa: F401  both are given anew after a fork

COUNT = layout.WORD["progress_count"]
TOTAL = layout.WORD["progress_total"]
PROGRESS = layout.WORD["last_progress_ns"]
PHASE = layout.WORD["phase"]


def put_progress(label, count, total):
    if label != put_progress.label:
        put_progress.label = label
        box.put_text("progress_text", label)
    numbers[COUNT] = count
    numbers[TOTAL] = total
    numbers[PROGRESS] = monotonic_ns()


put_progress.label = ""


def on_tqdm(std):
    """A bar calls `update` when it is told to, or when its iteration is about to redraw it."""

    def look(args, kwargs, result=None):
        bar = args[0]
        if bar.disable:
            return
        total = bar.total
        label = (bar.desc or "").rstrip(": ")
        put_progress(label, int(bar.n), layout.UNKNOWN if total is None else int(total))

    std.tqdm.update = native.wrap(std.tqdm.update, after=look, is_method=True)
    std.tqdm.close = native.wrap(std.tqdm.close, before=look, is_method=True)


def on_lightning(call):
    phases = {
        "on_train_batch_start": "train",
        "on_train_epoch_start": "train",
        "on_validation_batch_start": "validate",
        "on_validation_epoch_start": "validate",
        "on_sanity_check_start": "validate",
        "on_test_batch_start": "test",
        "on_predict_batch_start": "predict",
        "on_save_checkpoint": "saving",
    }
    codes = {name: layout.PHASES.index(phase) for name, phase in phases.items()}

    def before(args, kwargs):
        trainer, hook = args[0], args[1]
        if hook in codes:
            numbers[PHASE] = codes[hook]
            box.put_epoch(trainer.current_epoch)
            numbers[PROGRESS] = monotonic_ns()

    call._call_callback_hooks = native.wrap(call._call_callback_hooks, before=before)
    box.note("Lightning's hooks are on")


def on_transformers(trainer_callback):
    phases = {
        "on_epoch_begin": "train",
        "on_step_begin": "train",
        "on_step_end": "train",
        "on_prediction_step": "validate",
        "on_evaluate": "validate",
        "on_save": "saving",
    }
    codes = {name: layout.PHASES.index(phase) for name, phase in phases.items()}

    def before(args, kwargs):
        event, state = args[1], args[3]
        if event not in codes:
            return
        numbers[PHASE] = codes[event]
        if state.epoch is not None:
            box.put_epoch(state.epoch)
        if event == "on_step_end":
            put_progress("Trainer", int(state.global_step), int(state.max_steps))

    handler = trainer_callback.CallbackHandler
    handler.call_event = native.wrap(handler.call_event, before=before, is_method=True)
    box.note("the Trainer's hooks are on")
