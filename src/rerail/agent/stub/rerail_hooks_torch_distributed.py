"""Hooks on torch.distributed: the last collectives of this rank, and which rank it is.

Below the Python functions that torch.compile knows by name: on the process group's methods and on
waiting for their work. Each call is a row of the ring: when it was entered and left, which one of
its group it is, how large, and from where in the user's own code. From CPython 3.11 on the rows
are written by native/collectives.c, which asks here for what it meets for the first time.
DistributedDataParallel reduces gradients without going through Python: its part of a backward call
is one row.
"""

import os
import struct
import sys
import weakref
from time import monotonic_ns

import rerail_box as box
import rerail_layout as layout
import rerail_native as native
from rerail_box import floats, numbers  # noqa: F401  both are given anew after a fork

PID = layout.HEAD["pid"] // 8
COUNT = layout.WORD["collective_count"]
TIME = layout.WORD["collective_ns"]
WAITED_FOR = layout.WORD["collective_waited_for"]
RING = layout.AREA["collectives"]
LENGTH = layout.COLLECTIVE_LENGTH
ROW_BYTES = layout.COLLECTIVE_WORDS * 8
LEFT = RING // 8 + 2  # the word of the first row
WORDS = layout.COLLECTIVE_WORDS
WAIT, READY = -1, -2  # COLLECTIVE_WAIT and COLLECTIVE_READY of native/collectives.h
GRADIENTS = layout.COLLECTIVES.index("gradients")
METHODS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "broadcast": "broadcast",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "allgather_coalesced": "all_gather",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
}
MOST_FRAMES = 24  # between a collective and the user's own code
MOST_PENDING = 256  # works that nobody has waited for
MOST_CACHED = 4096
LIBRARY = ("site-packages", "dist-packages", "<frozen", os.path.dirname(os.__file__) + os.sep)

write_row = struct.Struct("=%dq" % WORDS).pack_into
pending = {}  # id of a work: its number in the ring
sequences = {}  # id of a living group: [how many collectives, its index from 1 on]
groups = {}  # the same by name
shapes = {}  # shape: packed
is_own = {}  # id of a code: [the code, whether it is the user's own]
place_of = {}  # (id of a code, instruction): index of its place
plain = []  # types of tensors that can be asked for their shape unnoticed
whose = [0]  # pid of the process that all of these are of
native_rows = [False]  # whether the library writes the ring
gradients = [False, None]  # whether a reducer waits for the backward call; number in the ring


def enter(op, group, tensor):
    """A new row; its number."""
    forget_parent()
    count = numbers[COUNT] + 1
    known = sequences.get(id(group)) or add_group(group)
    known[0] += 1
    size = packed = 0
    if type(tensor) in plain:
        size = tensor.nbytes
        shape = tensor.shape
        packed = shapes.get(shape)
        if packed is None:
            packed = add_shape(shape)
    what = op | known[1] << layout.GROUP_SHIFT | place_from(sys._getframe(2)) << layout.PLACE_SHIFT
    at = RING + count % LENGTH * ROW_BYTES
    write_row(box.octets, at, count, monotonic_ns(), 0, what, known[0], size, packed)
    numbers[COUNT] = count
    return count


def leave(number, has_raised):
    """Unless its row is somebody else's by now."""
    if numbers[COUNT] - number < LENGTH:
        now = monotonic_ns()
        numbers[LEFT + number % LENGTH * WORDS] = -now if has_raised else now


def place_from(frame):
    """Where the user's own code called, as an index from 1 on; 0 if it is not known."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return 0
        code = frame.f_code
        known = is_own.get(id(code)) or add_code(code)
        if known[1]:
            found = place_of.get((id(code), frame.f_lasti))
            return add_place(frame) if found is None else found
        frame = frame.f_back
    return 0


def add_code(code):
    if len(is_own) >= MOST_CACHED:
        return [code, False]
    name = code.co_filename
    known = is_own[id(code)] = [code, not any(part in name for part in LIBRARY)]
    return known


def add_place(frame):
    code = frame.f_code
    count = numbers[layout.WORD["place_count"]] + 1
    index = (count - 1) % layout.PLACE_LENGTH + 1
    for key in [key for key, value in place_of.items() if value == index]:
        del place_of[key]  # the oldest gives way
    if native.locked is not None:
        native.locked.rerail_forget_place(index)
    text = "%s\0%d\0%s" % (code.co_filename, frame.f_lineno, code.co_name)
    raw = text.encode("utf-8", "replace")
    size = layout.PLACE_CAPACITY
    offset = layout.AREA["places"] + (index - 1) * (2 + size)
    box.put_text_at(offset, size, raw[-size:])  # the end of a path says more
    numbers[layout.WORD["place_count"]] = count
    place_of[id(code), frame.f_lasti] = index
    return index


def add_shape(shape):
    if len(shapes) >= MOST_CACHED:
        shapes.clear()
    packed = shapes[shape] = layout.pack_shape(shape)
    return packed


def add_group(group):
    """Without keeping it: a group that nobody holds ends its threads."""
    name = str(getattr(group, "group_name", "") or "")
    known = groups.get(name)
    if known is None:
        count = numbers[layout.WORD["group_count"]]
        if count >= layout.GROUP_LENGTH:
            return [0, 0]  # too many to tell apart
        size = layout.GROUP_CAPACITY
        box.put_text_at(layout.AREA["groups"] + count * (2 + size), size, name)
        numbers[layout.WORD["group_count"]] = count + 1
        known = groups[name] = [0, count + 1]
    sequences[id(group)] = known
    if group is not None:  # the gradients have none
        weakref.finalize(group, forget_group, id(group)).atexit = False
    return known


def forget_parent():
    """A forked child's box is empty, so what its parent had written into its own is unknown."""
    if whose[0] != numbers[PID]:
        whose[0] = numbers[PID]
        for known in (pending, sequences, groups, place_of):
            known.clear()


def forget_group(key):
    sequences.pop(key, None)
    if native.locked is not None:
        native.locked.rerail_forget_group(key)


def index_of_group(group):
    forget_parent()
    return (sequences.get(id(group)) or add_group(group))[1]


def code_is_own(code):
    return int(add_code(code)[1])


def on_c10d(c10d):
    def joined(args, kwargs, result):
        if result is not ...:
            numbers[layout.WORD["rank"]] = c10d.get_rank()
            numbers[layout.WORD["world_size"]] = c10d.get_world_size()
            on_gradients(sys.modules["torch"], sys.modules.get("torch._C._distributed_c10d"))

    def joins(args, kwargs):
        """As it was told: one that never meets the others may have been told something else."""
        given = kwargs or {}
        for name, at in (("world_size", 3), ("rank", 4)):
            value = args[at] if len(args) > at else given.get(name)
            if type(value) is int and value >= 0:
                numbers[layout.WORD[name]] = value

    c10d.init_process_group = native.wrap(c10d.init_process_group, before=joins, after=joined)
    bindings = sys.modules.get("torch._C._distributed_c10d")
    if bindings is None:
        return
    torch = sys.modules["torch"]
    plain[:] = [torch.Tensor, torch.nn.Parameter] if hasattr(torch, "nn") else [torch.Tensor]
    work_type = bindings.Work
    function_modes = getattr(torch._C, "_len_torch_function_stack", int)
    modes = getattr(torch._C, "_len_torch_dispatch_stack", int)

    def begin(op):
        def before(args, kwargs):
            given = args[1] if len(args) > 1 else None
            while type(given) is list and given:
                given = given[0]
            if function_modes() or modes():
                given = None  # the user's mode would see what is asked of the tensor here
            numbers[WAITED_FOR] = enter(op, args[0], given)

        return before

    def entered(args, kwargs, result):
        number = numbers[WAITED_FOR]
        numbers[WAITED_FOR] = 0
        if isinstance(result, work_type):
            if len(pending) >= MOST_PENDING:
                pending.clear()
            pending[id(result)] = number
        else:
            leave(number, result is ...)

    def waits(args, kwargs):
        numbers[WAITED_FOR] = pending.get(id(args[0]), 0)

    def over(args, kwargs, result):
        number = pending.pop(id(args[0]), 0)
        numbers[WAITED_FOR] = 0
        if number:
            leave(number, result is ...)

    helpers = [index_of_group, code_is_own, add_place, place_from, work_type]
    native_rows[0] = native.use_collectives(helpers)
    group = bindings.ProcessGroup
    for method, name in METHODS.items():
        if method in vars(group):
            op = layout.COLLECTIVES.index(name)
            wrapped = native.wrap(
                getattr(group, method),
                before=begin(op),
                after=entered,
                is_method=True,
                times=TIME,
                collective=op,
            )
            setattr(group, method, wrapped)
    work_type.wait = native.wrap(
        work_type.wait, before=waits, after=over, is_method=True, times=TIME, collective=WAIT
    )


def on_gradients(torch, bindings):
    """A backward call for which a reducer was made ready holds the reduction of gradients."""
    reducer = getattr(bindings, "Reducer", None)
    if reducer is None or gradients[1] is not None:
        return

    def ready(args, kwargs):
        gradients[0] = True

    def before(args, kwargs):
        if gradients[0]:
            gradients[:] = [False, enter(GRADIENTS, None, None)]

    def after(args, kwargs, result):
        if gradients[1]:
            leave(gradients[1], result is ...)
            gradients[1] = 0

    gradients[1] = 0
    reducer.prepare_for_backward = native.wrap(
        reducer.prepare_for_backward, before=ready, is_method=True, collective=READY
    )
    if native_rows[0]:
        return  # by the wrapper that is there already
    torch.autograd.backward = native.wrap(torch.autograd.backward, before=before, after=after)


def on_spawn(spawn):
    """torch.multiprocessing.spawn hands a rank's exception to its parent and exits with 1."""

    def formats(args, kwargs):
        caller = sys._getframe(1)
        if (
            caller.f_code.co_name == "_wrap"
            and caller.f_globals.get("__name__") == "torch.multiprocessing.spawn"
        ):
            kind, value = sys.exc_info()[:2]
            box.put_exception(kind, value)
            box.put_rank_if_unknown(caller.f_locals.get("i"))

    traceback = sys.modules.get("traceback") or __import__("traceback")
    traceback.format_exc = native.wrap(traceback.format_exc, before=formats)
