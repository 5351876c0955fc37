"""Running a hook on a module right after the program has imported it, and never otherwise.

A finder in front of the others lets them find the module and, for the few names in HOOKS, adds a
step to the loader that they chose: for the one module, once, taken off again afterwards, so that
neither `__spec__`, `__loader__` nor a traceback of a failing import shows anything. Works for
reload (the step is added anew) and for lazy loaders (they call the same loader later).
"""

import os
import sys

import rerail_box as box
import rerail_native as native

# module name -> (file of hooks, function that is given the module)
HOOKS = {
    "threading": ("rerail_hooks_python", "on_threading"),
    "signal": ("rerail_hooks_python", "on_signal"),
    "multiprocessing.util": ("rerail_hooks_python", "on_multiprocessing_util"),
    "torch.autograd": ("rerail_hooks_torch", "on_autograd"),
    "torch": ("rerail_hooks_torch", "on_torch"),
    "torch.serialization": ("rerail_hooks_torch", "on_serialization"),
    "torch.utils.data.dataloader": ("rerail_hooks_torch_data", "on_dataloader"),
    "torch.utils.data._utils.fetch": ("rerail_hooks_torch_data", "on_fetch"),
    "torch.utils.data._utils.signal_handling": ("rerail_hooks_torch_data", "on_signal_handling"),
    "torch.distributed.distributed_c10d": ("rerail_hooks_torch_distributed", "on_c10d"),
    "torch.multiprocessing.spawn": ("rerail_hooks_torch_distributed", "on_spawn"),
    "numpy": ("rerail_hooks_files", "on_numpy"),
    "faiss": ("rerail_hooks_files", "on_faiss"),
    "tqdm.std": ("rerail_hooks_progress", "on_tqdm"),
    "lightning.pytorch.trainer.call": ("rerail_hooks_progress", "on_lightning"),
    "pytorch_lightning.trainer.call": ("rerail_hooks_progress", "on_lightning"),
    "transformers.trainer_callback": ("rerail_hooks_progress", "on_transformers"),
    "xgboost.core": ("rerail_hooks_trainers", "on_xgboost"),
    "lightgbm.basic": ("rerail_hooks_trainers", "on_lightgbm"),
    "keras.src.callbacks.callback_list": ("rerail_hooks_trainers", "on_keras"),
    "sklearn.linear_model._stochastic_gradient": ("rerail_hooks_trainers", "on_sklearn_sgd"),
    "sklearn.neural_network._multilayer_perceptron": ("rerail_hooks_trainers", "on_sklearn_mlp"),
    "sklearn.ensemble._gb": ("rerail_hooks_trainers", "on_sklearn_boosting"),
    "mlflow.tracking._tracking_service.client": ("rerail_hooks_trackers", "on_mlflow_client"),
    "mlflow.tracking.fluent": ("rerail_hooks_trackers", "on_mlflow_fluent"),
    "wandb.sdk.wandb_init": ("rerail_hooks_trackers", "on_wandb_init"),
    "wandb.sdk.wandb_run": ("rerail_hooks_trackers", "on_wandb_run"),
    "tensorboard.summary.writer.event_file_writer": ("rerail_hooks_trackers", "on_event_writer"),
    "tensorboardX.event_file_writer": ("rerail_hooks_trackers", "on_event_writer"),
}
if sys.version_info >= (3, 13):
    HOOKS["traceback"] = ("rerail_hooks_python", "on_traceback")

_folder = None


def hook_module(name):
    """One of the stub's own files, although its folder has left the import path."""
    module = sys.modules.get(name)
    if module is None:
        if not native.may_open():
            raise ImportError("the program filters its own system calls")
        import importlib.util

        spec = importlib.util.spec_from_file_location(name, "%s/%s.py" % (_folder, name))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return module


def apply(name):
    try:
        file, function = HOOKS[name]
        getattr(hook_module(file), function)(sys.modules[name])
    except Exception as error:
        box.note_failure("hook on " + name + " is off", error)


class Finder:
    """First in sys.meta_path; finds nothing itself."""

    def find_spec(self, name, path=None, target=None):
        if name not in HOOKS:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                try:
                    _add_step(spec.loader, name)
                except Exception as error:
                    box.note_failure("hook on " + name + " is off", error)
                return spec
        return None


def _add_step(loader, name):
    if "exec_module" in vars(loader):
        return  # found twice, loaded once

    def after(args, kwargs, result):
        if args[0].__name__ != name:
            return  # a loader that serves several modules
        del loader.exec_module
        if result is not ...:
            apply(name)

    loader.exec_module = native.wrap(loader.exec_module, after=after)


def watch(folder):
    global _folder
    _folder = folder
    if os.environ.get("RERAIL_CHANGES"):  # a trial of `rerail isolate`
        try:
            hook_module("rerail_changes").start(HOOKS)
        except Exception as error:
            box.note_failure("changes are off", error)
    sys.meta_path.insert(0, Finder())
    for name in HOOKS:
        if name in sys.modules:
            apply(name)
