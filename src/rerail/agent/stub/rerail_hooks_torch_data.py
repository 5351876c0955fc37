"""Hooks on torch's DataLoader: settings, batches and their shapes, our place in its workers."""

import os
import sys

import rerail_box as box
import rerail_imports
import rerail_layout as layout
import rerail_native as native
from rerail_box import floats, numbers  # noqa: F401  both are given anew after a fork

PID = layout.HEAD["pid"] // 8
PHASE = layout.WORD["phase"]
EPOCH = layout.WORD["epoch"]
IN_DATA = layout.PHASES.index("data")
IN_FORWARD = layout.PHASES.index("forward")
IN_VALIDATE = layout.PHASES.index("validate")
MOST_PARTS = 8
CENSUS_FIRST_BATCH = 3
SHAPES_PAUSE_NS = 5000000  # faster batches than 200 a second are looked at now and then


def on_dataloader(dataloader):
    torch = sys.modules["torch"]
    is_grad_enabled = torch.is_grad_enabled
    iterator = dataloader._BaseDataLoaderIter
    last_shapes = []
    times = {}  # of iteration of each training loader, by id

    def iteration_begins(args, kwargs, result):
        if len(args) < 2 or result is ...:
            return
        loader = args[1]
        method = start_method(loader) if loader.num_workers else None
        box.put_loader(
            loader.num_workers,
            loader.batch_size,
            getattr(loader, "prefetch_factor", None),
            method,
            loader.pin_memory,
            getattr(loader, "persistent_workers", False),
        )
        count_epoch(loader)

    def count_epoch(loader):
        """How often the one training loader has begun; unknown when there are several."""
        if not is_grad_enabled():
            return
        times[id(loader)] = times.get(id(loader), -1) + 1
        if not box.epoch_is_told:
            numbers[EPOCH] = times[id(loader)] if len(times) == 1 else layout.UNKNOWN

    def after_next(args, kwargs, result):
        if not is_grad_enabled():
            numbers[PHASE] = IN_VALIDATE
        if result is ...:
            return  # the end of the data, or an error of the program
        shapes = shapes_of(result)
        # Of this process: a forked child has written nothing into its own box yet.
        if last_shapes != [shapes, numbers[PID]]:
            last_shapes[:] = [shapes, numbers[PID]]
            box.put_text("batch_shapes", describe(shapes))

    iterator.__init__ = native.wrap(iterator.__init__, after=iteration_begins, is_method=True)
    iterator.__next__ = native.wrap(
        iterator.__next__,
        after=after_next,
        is_method=True,
        phase_before=IN_DATA,
        phase_after=IN_FORWARD,
        counts=layout.WORD["batches"],
        progresses=True,
        pause_ns=SHAPES_PAUSE_NS,
        times=layout.WORD["data_wait_ns"],
        look=native.BATCH,
    )
    if hasattr(iterator, "_reset"):

        def another_epoch(args, kwargs, result):
            first = args[2] if len(args) > 2 else (kwargs or {}).get("first_iter", False)
            if not first:  # persistent workers: the iterator stays, the epoch is new
                count_epoch(args[1])

        iterator._reset = native.wrap(iterator._reset, after=another_epoch, is_method=True)


def on_fetch(fetch):
    """A worker's batches: the moments at which its memory is looked at, see rerail_census.

    And its exceptions: they go to the parent as text, and the file that they failed on stays here.
    """

    def goes_to_the_parent(args, kwargs):
        value, traceback = sys.exc_info()[1:]
        box.put_in_hand(value, traceback)

    wrapper = getattr(sys.modules.get("torch._utils"), "ExceptionWrapper", None)
    if wrapper is not None:
        wrapper.__init__ = native.wrap(wrapper.__init__, before=goes_to_the_parent, is_method=True)
    if os.environ.get("RERAIL_CENSUS") == "0":
        return
    done = [0, CENSUS_FIRST_BATCH]

    def after(args, kwargs, result):
        worker = sys.modules.get("torch.utils.data._utils.worker")
        if worker is None or worker._worker_info is None:
            return
        done[0] += 1
        if done[0] >= done[1]:
            census = rerail_imports.hook_module("rerail_census")
            if done[1] == CENSUS_FIRST_BATCH:
                census.start_in_worker()
            done[1] = census.look(done[0])

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(fetch, name)
        fetcher.fetch = native.wrap(fetcher.fetch, after=after, is_method=True)


def start_method(loader):
    """Without asking for the default one, which would settle it for the program."""
    context = loader.multiprocessing_context
    if context is None:
        multiprocessing = sys.modules["multiprocessing"]
        chosen = multiprocessing.get_start_method(allow_none=True)
        return chosen or multiprocessing.get_all_start_methods()[0]
    return context.get_start_method()


def shapes_of(batch):
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return shape
    if isinstance(batch, dict):
        return {str(name): shapes_of(batch[name]) for name in list(batch)[:MOST_PARTS]}
    if isinstance(batch, (list, tuple)):
        return [shapes_of(part) for part in batch[:MOST_PARTS]]
    return type(batch).__name__


def describe(shapes):
    if isinstance(shapes, dict):
        return "{" + ", ".join("%s: %s" % (k, describe(v)) for k, v in shapes.items()) + "}"
    if isinstance(shapes, list):
        return "[" + ", ".join(describe(part) for part in shapes) + "]"
    if isinstance(shapes, str):
        return shapes
    return "x".join(str(int(side)) for side in shapes) or "scalar"


def on_signal_handling(signal_handling):
    """A worker installs its own handlers after it was forked or spawned: stay on top of them."""
    library = native.library

    def after(args, kwargs, result):
        if library is not None:
            library.rerail_keep_place()
        number = worker_number()
        if number is not None:
            numbers[layout.WORD["loader_worker"]] = number + 1

    signal_handling._set_worker_signal_handlers = native.wrap(
        signal_handling._set_worker_signal_handlers, after=after
    )


def worker_number():
    """By what the loader called this process with: torch's own word for it comes later."""
    process = sys.modules["multiprocessing.process"].current_process()
    target, given = getattr(process, "_target", None), getattr(process, "_args", ())
    code = getattr(target, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    at = names.index("worker_id") if "worker_id" in names else len(given)
    return given[at] if at < len(given) and type(given[at]) is int else None
