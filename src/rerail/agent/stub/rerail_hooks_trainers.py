"""Hooks on trainers that do not use torch's optimizers: XGBoost, LightGBM, Keras, scikit-learn.

Each counts what the framework itself calls a step (a boosting round, a batch, a call of
partial_fit) with the same function as torch's optimizers, and takes the loss where the framework
has computed it anyway. Nothing is computed, kept or changed here.
"""

import re

import rerail_box as box
import rerail_imports
import rerail_layout as layout
import rerail_native as native
from rerail_box import numbers

PHASE = layout.WORD["phase"]
TRAINS = layout.PHASES.index("train")
VALIDATES = layout.PHASES.index("validate")
# Metrics that are smaller for a better model. An accuracy or an AUC is no loss.
_LOSS = re.compile(r"loss|rmse|rmsle|mae|mse|error|deviance|mape|nll|^l[12]$", re.IGNORECASE)

steps = rerail_imports.hook_module("rerail_hooks_torch")


def _a_step(args, kwargs, result):
    if result is not ...:
        numbers[PHASE] = TRAINS
        steps.step_ended()


def _note(value):
    steps.note_loss(float(value))


def on_xgboost(core):
    """One round of boosting; `[3]\\ttrain-rmse:0.41\\tvalid-rmse:0.52` when it evaluates."""
    booster = core.Booster
    booster.update = native.wrap(booster.update, after=_a_step, is_method=True)
    shown = re.compile(r"\t[^\t]{0,200}?-([^\t:]{1,80}):([-+.\deEnaif]{1,40})")

    def evaluated(args, kwargs, result):
        text = result if isinstance(result, str) else ""
        for name, value in shown.findall(text[:2000]):
            if _LOSS.search(name):
                _note(value)
                return

    booster.eval_set = native.wrap(booster.eval_set, after=evaluated, is_method=True)
    box.note("XGBoost's rounds are counted")


def on_lightgbm(basic):
    booster = basic.Booster
    booster.update = native.wrap(booster.update, after=_a_step, is_method=True)
    name = "_Booster__inner_eval"
    if hasattr(booster, name):

        def evaluated(args, kwargs, result):
            for row in result if isinstance(result, list) else ():
                if _LOSS.search(str(row[1])):
                    _note(row[2])
                    return

        setattr(booster, name, native.wrap(getattr(booster, name), after=evaluated, is_method=True))
    box.note("LightGBM's rounds are counted")


def on_keras(callback_list):
    """Keras 3, whatever computes below it; its optimizers are its own."""
    callbacks = callback_list.CallbackList

    def epoch_begins(args, kwargs):
        box.put_epoch(args[1] + 1)  # its bars count from one
        numbers[PHASE] = TRAINS

    def batch_ended(args, kwargs, result):
        steps.step_ended()

    def fetched(args, kwargs, result):
        # What it has fetched from the device by itself, to give it to callbacks.
        if isinstance(result, dict) and isinstance(result.get("loss"), (int, float)):
            _note(result["loss"])

    def test_begins(args, kwargs):
        numbers[PHASE] = VALIDATES

    for name, when in (
        ("on_epoch_begin", {"before": epoch_begins}),
        ("on_train_batch_end", {"after": batch_ended}),
        ("on_test_begin", {"before": test_begins}),
    ):
        setattr(callbacks, name, native.wrap(getattr(callbacks, name), is_method=True, **when))
    utils = getattr(callback_list, "python_utils", None)
    if hasattr(utils, "pythonify_logs"):
        utils.pythonify_logs = native.wrap(utils.pythonify_logs, after=fetched)
    box.note("Keras's batches are counted")


def on_sklearn_sgd(module):
    for name in ("BaseSGDClassifier", "BaseSGDRegressor"):
        _partial_fits(getattr(module, name, None))


def on_sklearn_mlp(module):
    """A fit goes over the data again and again: an epoch and its loss, each time."""
    network = module.BaseMultilayerPerceptron
    _partial_fits(network)

    def epoch_ended(args, kwargs, result):
        model = args[0]
        box.put_epoch(model.n_iter_)
        _note(model.loss_)
        steps.step_ended()

    name = "_update_no_improvement_count"
    if hasattr(network, name):
        setattr(
            network, name, native.wrap(getattr(network, name), after=epoch_ended, is_method=True)
        )
    box.note("scikit-learn's epochs are counted")


def on_sklearn_boosting(module):
    """One stage of gradient boosting; the loss of the stage before is there when one begins."""
    boosting = module.BaseGradientBoosting

    def stage_begins(args, kwargs):
        _note_stage(args[0], args[1] if len(args) > 1 else kwargs["i"])

    def stages_ended(args, kwargs, result):
        if isinstance(result, int):
            _note_stage(args[0], result)

    for name, when in (
        ("_fit_stage", {"before": stage_begins, "after": _a_step}),
        ("_fit_stages", {"after": stages_ended}),
    ):
        setattr(boosting, name, native.wrap(getattr(boosting, name), is_method=True, **when))
    box.note("scikit-learn's stages are counted")


def _note_stage(model, stages):
    """The loss of the last of so many stages that are done."""
    if stages > 0:
        _note(model.train_score_[stages - 1])


def _partial_fits(kind):
    if kind is not None and "partial_fit" in vars(kind):
        kind.partial_fit = native.wrap(kind.partial_fit, after=_a_step, is_method=True)
