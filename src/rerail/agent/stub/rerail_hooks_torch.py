"""Hooks on torch: steps, backward calls, the loss, checkpoints.

Nothing here computes, moves or keeps a tensor. The loss is read only where reading is a load from
memory: one element, on the CPU, outside any mode of torch that would notice. On a GPU it would
wait for the device, so there only what the program fetches itself with .item() is seen. Where it
can the library does the reading (native/torch_looks.c), and the hooks here are for the rest.
"""

import os
import sys
from time import monotonic_ns

import rerail_box as box
import rerail_imports
import rerail_layout as layout
import rerail_native as native
from rerail_box import floats, numbers

STEPS = layout.WORD["optimizer_steps"]
PHASE = layout.WORD["phase"]
LOSS = layout.WORD["loss"]
NONFINITE = layout.WORD["first_nonfinite_step"]
PROGRESS = layout.WORD["last_progress_ns"]
HISTORY = layout.AREA["history"] // 8
IN_STEP = layout.PHASES.index("step")
IN_TRAIN = layout.PHASES.index("train")
IN_BACKWARD = layout.PHASES.index("backward")
IN_LOADING = layout.PHASES.index("loading")
IN_SAVING = layout.PHASES.index("saving")

# Reading a loss costs a few µs of a cold cache: about a thousandth of any training at the most.
LOSS_PAUSE_NS = 5000000

CENSUS_FIRST_STEP = 10  # imports, the model, the optimizer's state and first batches are behind it
CENSUS_NEVER = (1 << 63) - 1
due = [CENSUS_NEVER]  # the step from which on memory is looked at


def step_begins_in_python():
    numbers[PHASE] = IN_STEP


def step_ended_in_python():
    now, step = monotonic_ns(), numbers[STEPS] + 1
    at = HISTORY + step % layout.HISTORY_LENGTH * 3
    numbers[at + 1] = now
    floats[at + 2] = floats[LOSS]
    numbers[at] = step
    numbers[STEPS] = step
    numbers[PROGRESS] = now
    numbers[PHASE] = IN_TRAIN
    return step >= due[0]


def note_loss_in_python(value):
    floats[LOSS] = value
    if value - value != 0.0 and numbers[NONFINITE] < 0:  # not a number, or infinite
        numbers[NONFINITE] = numbers[STEPS] + 1


step_begins, step_ended, note_loss = native.step_functions() or (
    step_begins_in_python,
    step_ended_in_python,
    note_loss_in_python,
)


def on_autograd(autograd):
    """Tensor.backward and everything built on it goes through torch.autograd.backward."""
    torch = sys.modules["torch"]
    watched = []  # the id of a loss on a device, once .item() is hooked

    def nobody():
        return 0

    modes = getattr(torch._C, "_len_torch_dispatch_stack", nobody)
    function_modes = getattr(torch._C, "_len_torch_function_stack", nobody)
    is_profiled = getattr(torch._C._autograd, "_profiler_enabled", nobody)

    def before(args, kwargs):
        if modes() or function_modes() or is_profiled():
            return  # the user's mode or profiler would see what is asked of the tensor here
        loss = args[0] if args else kwargs["tensors"]
        if type(loss) in (list, tuple):
            loss = loss[0]
        if type(loss) is not torch.Tensor or loss.numel() != 1:
            return
        if loss.is_cpu:
            note_loss(loss.item())
        elif watched:
            watched[0] = id(loss)
        else:
            watched.append(id(loss))
            _hook_item(torch, watched)

    autograd.backward = native.wrap(
        autograd.backward,
        before=before,
        phase_before=IN_BACKWARD,
        phase_after=IN_TRAIN,
        counts=layout.WORD["backward_calls"],
        pause_ns=LOSS_PAUSE_NS,
        times=layout.WORD["backward_ns"],
        gradients=layout.COLLECTIVES.index("gradients"),
        look=native.LOSS,
    )


def _hook_item(torch, watched):
    """On a device: note what the program itself fetches of the tensor it called backward on."""

    def after(args, kwargs, result):
        if id(args[0]) == watched[0] and type(result) is float:
            note_loss(result)

    if native.locked is not None:
        native.locked.rerail_await_loss(watched[0])
    torch.Tensor.item = native.wrap(
        torch.Tensor.item, after=after, is_method=True, look=native.FETCHED
    )


def look_from(step):
    due[0] = step
    native.tell_of_step(step)


def look_at_memory():
    """See rerail_census, which says at which step to look again."""
    try:
        look = rerail_imports.hook_module("rerail_census").look
    except Exception as error:
        box.note_failure("census is off", error)
        look_from(CENSUS_NEVER)
        return
    look_from(look(numbers[STEPS]))


def on_torch(torch):
    """torch's own global step hooks: every optimizer, nothing stored in the user's objects."""
    native.use_torch(torch)
    version = torch.version.__version__.split(".")
    if (int(version[0]), int(version[1])) < (2, 1):
        # These run inside the user's step with nobody to catch what they raise.
        box.note("optimizer steps are not counted under torch older than 2.1")
        return
    native.hide_hooks_from(torch._C._dynamo.eval_frame.set_eval_frame)
    optimizer = sys.modules["torch.optim.optimizer"]
    is_traced = torch.compiler.is_dynamo_compiling
    if any(hook.__module__ == __name__ for hook in optimizer._global_optimizer_post_hooks.values()):
        return  # torch was reloaded, its optimizers were not

    look_from(CENSUS_NEVER if os.environ.get("RERAIL_CENSUS") == "0" else CENSUS_FIRST_STEP)

    # torch.compile may trace into these two; then they must be nothing at all.
    def before_step(optimizer, args, kwargs):
        if not is_traced():
            step_begins()

    def after_step(optimizer, args, kwargs):
        if not is_traced() and step_ended():
            look_at_memory()

    optimizer.register_optimizer_step_pre_hook(before_step)
    optimizer.register_optimizer_step_post_hook(after_step)


def on_serialization(serialization):
    """torch.load and torch.save: which file, how large, mapped or not."""

    def before_load(args, kwargs):
        path = args[0] if args else kwargs.get("f")
        if isinstance(path, (str, os.PathLike)):
            path = os.path.abspath(os.fspath(path))
            is_mapped = bool(kwargs and kwargs.get("mmap"))
            box.put_file(path, "torch.load", os.stat(path).st_size, is_mapped)

    def after(args, kwargs, result):
        numbers[PHASE] = IN_TRAIN if numbers[STEPS] else 0

    serialization.load = native.wrap(
        serialization.load, before=before_load, after=after, phase_before=IN_LOADING
    )
    # Inside torch.save, whose own signature has a default that a built-in cannot state.
    if hasattr(serialization, "_save"):
        serialization._save = native.wrap(serialization._save, after=after, phase_before=IN_SAVING)
