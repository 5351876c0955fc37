"""The C library as the stub sees it, and frameless wrappers of other people's functions.

Comes in: the path of the library. Goes out: `library` (None where it could not be loaded) and
`wrap`. Promises: a wrapped function behaves as before, also in tracebacks, warnings and pickles;
a hook that raises is taken out and noted.
"""

import os
import sys
from time import monotonic_ns

import rerail_box as box
import rerail_layout as layout

library = None  # functions that may run without the interpreter's lock
_make = None
_function = None
_hide_hooks_from = None
_use_collectives = None
locked = None  # the same library, for functions that need the interpreter's lock
_folder = None


def load(path):
    """Raises OSError for a library that was built from other sources than this file."""
    global library, locked, _make, _function, _hide_hooks_from, _use_collectives
    import ctypes

    found = ctypes.CDLL(path)
    # A struct that the two see differently would end the user's program with a segmentation fault.
    interface = getattr(found, "rerail_interface", None)
    if interface is None or interface() != layout.INTERFACE:
        raise OSError("the library was built from other sources than the stub")
    found.rerail_start.restype = ctypes.c_void_p
    found.rerail_may_open.restype = ctypes.c_int
    found.rerail_folder.restype = ctypes.c_char_p
    found.rerail_handler_of.restype = ctypes.c_void_p
    found.rerail_forget_handler_of.argtypes = (ctypes.c_int, ctypes.c_void_p)
    found.rerail_tell_of_step.argtypes = (ctypes.c_int64,)
    with_lock = ctypes.PyDLL(path)
    thing, text = ctypes.py_object, ctypes.c_char_p
    make = with_lock.rerail_wrap
    make.restype = thing
    make.argtypes = (thing, thing, text, text, ctypes.c_int, text)
    function = with_lock.rerail_function
    function.restype = thing
    hide_hooks_from = with_lock.rerail_hide_hooks_from
    hide_hooks_from.argtypes = (thing,)
    hide_hooks_from.restype = None
    use_collectives = with_lock.rerail_use_collectives
    use_collectives.argtypes = (text, thing)
    with_lock.rerail_forget_group.argtypes = (ctypes.c_void_p,)
    with_lock.rerail_forget_place.argtypes = (ctypes.c_int,)
    with_lock.rerail_use_torch.argtypes = (thing,)
    with_lock.rerail_await_loss.argtypes = (ctypes.c_void_p,)
    # All of them or none: a library that lacks one is not used at all.
    library, locked, _make, _function = found, with_lock, make, function
    _hide_hooks_from, _use_collectives = hide_hooks_from, use_collectives


def may_open():
    """Return False once the program has filtered its own system calls (machine.h says why)."""
    return library is None or bool(library.rerail_may_open())


def path_of(ending):
    """Where a file of this process with this ending belongs (native/folders.c)."""
    global _folder
    if _folder is None and library is not None:
        _folder = os.fsdecode(library.rerail_folder())
    start = box.numbers[layout.HEAD["start_ticks"] // 8]
    return "%s/%d-%d%s" % (_folder or os.environ["RERAIL_AGENT"], os.getpid(), start, ending)


def view_of(address, size):
    import ctypes

    memory = (ctypes.c_char * size).from_address(address)
    return memory, memoryview(memory).cast("B")


def step_functions():
    """step_begins(), step_ended(), note_loss(value): one call into C each; None without it.

    step_ended() is something true when the step is one that `tell_of_step` asked for.
    """
    if library is None:
        return None
    import struct

    words = [layout.WORD[name] for name in ("optimizer_steps", "phase", "last_progress_ns")]
    words += [layout.WORD["loss"], layout.WORD["first_nonfinite_step"]]
    words += [layout.AREA["history"] // 8, layout.HISTORY_LENGTH]
    words += [layout.PHASES.index(name) for name in ("step", "train", "validate")]
    library.rerail_use_words(struct.pack("=10q", *words))
    return _function(0), _function(1), _function(2)


def tell_of_step(step):
    if library is not None:
        library.rerail_tell_of_step(step)


def remember_first_page():
    """For the boxes of forked children, which begin with the same words as this one so far."""
    if library is None:
        return
    import struct

    places = [layout.WORD["rank"] * 8, layout.WORD["world_size"] * 8]
    # Whatever a hook writes, it writes a number or a text in one of these two places too.
    places += [layout.WORD["optimizer_steps"] * 8, layout.TEXT["python_version"][0]]
    places += [layout.TEXT["progress_text"][0], layout.AREA["history"]]
    library.rerail_remember_first_page(struct.pack("=6q", *places))


def fork_function():
    """What to call before a fork; the forked child sees to itself, without Python code."""
    return _function(3)


def use_collectives(helpers):
    """Let the library write the ring of collectives; False where the stub has to."""
    if _use_collectives is None or not _has_lock():
        return False
    import struct

    words = [layout.WORD["collective_count"], layout.WORD["collective_waited_for"]]
    words += [layout.AREA["collectives"] // 8, layout.COLLECTIVE_LENGTH, layout.COLLECTIVE_WORDS]
    words += [layout.GROUP_SHIFT, layout.PLACE_SHIFT]
    return bool(_use_collectives(struct.pack("=7q", *words), helpers))


def _has_lock():
    asked = getattr(sys, "_is_gil_enabled", None)
    return asked is None or asked()


def use_torch(torch):
    """Let the library look at losses and batches first (native/torch_looks.h), with a lock only."""
    if locked is None or not _has_lock():
        return
    tensor, asked = torch.Tensor, torch._C
    helpers = [tensor, torch.nn.Parameter]
    helpers += [getattr(asked, "_len_torch_function_stack", None)]
    helpers += [getattr(asked, "_len_torch_dispatch_stack", None)]
    helpers += [getattr(asked._autograd, "_profiler_enabled", None), torch.is_grad_enabled]
    helpers += [tensor.numel, tensor.item, float, int, str, dict, tuple]
    locked.rerail_use_torch(helpers)


def hide_hooks_from(set_frame_callback):
    """Torch's compiler looks into every frame; `set_frame_callback` puts it away for a moment."""
    if _hide_hooks_from is not None:
        _hide_hooks_from(set_frame_callback)


# What a wrapped call writes without any Python code: see struct call_plan in counting.h.
NOTHING = -1
NEVER = (1 << 63) - 1
# Which look of the library stands in for a hook: enum look in torch_looks.h.
LOSS, BATCH, FETCHED = 1, 2, 3


def wrap(
    wrapped,
    before=None,
    after=None,
    is_method=False,
    phase_before=NOTHING,
    phase_after=NOTHING,
    counts=NOTHING,
    progresses=False,
    pause_ns=0,
    goodbye=NOTHING,
    times=NOTHING,
    collective=0,
    gradients=0,
    look=0,
):
    """A callable like `wrapped` that calls before(args, kwargs) and after(args, kwargs, result).

    kwargs is None when there are none; result is Ellipsis when `wrapped` raised. The phases and
    the counted word are written at every call; the hooks at most once in `pause_ns`. `goodbye` is
    written instead of a phase, for a function that ends the process. The word `times` grows by the
    nanoseconds that each call lasts. `collective`: which one it is, for the library's own ring
    (native/collectives.h); the hooks are not called then. `gradients`: which one is part of this
    call after DistributedDataParallel said so. `look`: what the library does in place of the one
    hook that there is (native/torch_looks.h); the hook is called for what only it can see to.
    """
    name = getattr(wrapped, "__name__", "function")

    def failed(kind, value):
        box.note_failure("hook on " + name + " is off", value)

    parts = [wrapped, before, after, failed]
    plan = (
        layout.WORD["phase"] if phase_before != NOTHING else NOTHING,
        phase_before,
        layout.WORD["phase"] if phase_after != NOTHING else NOTHING,
        phase_after,
        counts,
        layout.WORD["last_progress_ns"] if progresses else NOTHING,
        times,
        collective,
        gradients,
        look,
        0,
        0,
        pause_ns,
        0,
    )
    if goodbye != NOTHING:
        plan = (layout.HEAD["said_goodbye"] // 8, goodbye, *plan[2:12], NEVER, 0)
    if _make is None:
        return _wrap_in_python(parts, plan)
    import struct

    doc = "" if is_method else _signature_line(wrapped, name)
    doc += getattr(wrapped, "__doc__", None) or ""
    module = getattr(wrapped, "__module__", None)
    holder = type(box)(module or "builtins")
    holder.parts = parts
    return _make(
        holder,
        module,
        name.encode(),
        doc.encode() if doc else None,
        is_method,
        struct.pack("=12h2q", *plan),
    )


def _wrap_in_python(parts, plan):
    """Without the library: the same, with a frame in tracebacks."""
    wrapped = parts[0]
    before_word, before_value, after_word, after_value, count_word = plan[:5]
    progress_word, time_word = plan[5:7]

    def run(which, *arguments):
        if parts[which] is not None:
            try:
                parts[which](*arguments)
            except Exception as error:
                parts[which] = None
                parts[3](type(error), error)

    def store(word, value):
        if word != NOTHING:
            box.numbers[word] = value

    def wrapper(*args, **kwargs):
        store(before_word, before_value)
        run(1, args, kwargs or None)
        result = ...
        began = monotonic_ns()
        try:
            result = wrapped(*args, **kwargs)
            return result
        finally:
            store(after_word, after_value)
            store(time_word, box.numbers[time_word] + monotonic_ns() - began)
            if result is not ...:
                store(count_word, box.numbers[count_word] + 1)
                store(progress_word, monotonic_ns())
            run(2, args, kwargs or None, result)

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, attribute, getattr(wrapped, attribute))
        except AttributeError:
            pass
    wrapper.__wrapped__ = wrapped
    return wrapper


def _signature_line(wrapped, name):
    """What lets inspect.signature answer for a built-in function; "" where it cannot be said."""
    while hasattr(wrapped, "__wrapped__"):
        wrapped = wrapped.__wrapped__
    known = getattr(wrapped, "__text_signature__", None)
    if known:
        return "%s%s\n--\n\n" % (name, known)
    code = getattr(wrapped, "__code__", None)
    if code is None:
        return ""
    names = list(code.co_varnames)
    positional = names[: code.co_argcount]
    keyword = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    defaults = wrapped.__defaults__ or ()
    values = dict(zip(positional[len(positional) - len(defaults) :], defaults))  # noqa: B905  Python 3.8
    values.update(wrapped.__kwdefaults__ or {})
    if not all(isinstance(value, (type(None), bool, int, str)) for value in values.values()):
        return ""

    def show(argument):
        return "%s=%r" % (argument, values[argument]) if argument in values else argument

    parts = [show(argument) for argument in positional]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    if code.co_flags & 4:
        parts.append("*" + rest.pop(0))
    elif keyword:
        parts.append("*")
    parts.extend(show(argument) for argument in keyword)
    if code.co_flags & 8:
        parts.append("**" + rest.pop(0))
    return "%s(%s)\n--\n\n" % (name, ", ".join(parts))
