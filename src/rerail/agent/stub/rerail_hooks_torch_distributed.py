"""Hooks on torch.distributed: the collective that this rank is in, and which rank it is.

Below the Python functions that torch.compile knows by name: on the process group's methods and on
waiting for their work. `collective` is set while a call or a wait lasts.
"""

import sys

import rerail_box as box
import rerail_layout as layout
import rerail_native as native
from rerail_box import floats, numbers  # noqa: F401  both are given anew after a fork

COUNT = layout.WORD["collective_count"]
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


def on_c10d(c10d):
    def joined(args, kwargs, result):
        if result is not ...:
            numbers[layout.WORD["rank"]] = c10d.get_rank()
            numbers[layout.WORD["world_size"]] = c10d.get_world_size()

    c10d.init_process_group = native.wrap(c10d.init_process_group, after=joined)
    bindings = sys.modules.get("torch._C._distributed_c10d")
    if bindings is None:
        return
    last = [b""]

    def begin(name):
        def before(args, kwargs):
            numbers[COUNT] += 1
            last[0] = b"%s #%d" % (name, numbers[COUNT])
            box.put_text("collective", last[0])

        return before

    def waits(args, kwargs):
        box.put_text("collective", last[0])

    def over(args, kwargs, result):
        box.put_text("collective", b"")

    group = bindings.ProcessGroup
    for method, name in METHODS.items():
        if method in vars(group):
            wrapped = native.wrap(
                getattr(group, method), before=begin(name.encode()), after=over, is_method=True
            )
            setattr(group, method, wrapped)
    bindings.Work.wait = native.wrap(bindings.Work.wait, before=waits, after=over, is_method=True)
