"""Hooks on what reads large files and searches them: numpy.load, numpy.memmap, faiss."""

import os

import rerail_box as box
import rerail_layout as layout
import rerail_native as native
from rerail_box import floats, numbers  # noqa: F401  both are given anew after a fork

PHASE = layout.WORD["phase"]
IN_LOADING = layout.PHASES.index("loading")
IN_MINING = layout.PHASES.index("mining")
IN_INDEXING = layout.PHASES.index("indexing")


def around(phase, after=None):
    """Hooks that set `phase` for the length of a call; calls may lie inside each other."""
    outer = []

    def before(args, kwargs):
        outer.append(numbers[PHASE])
        numbers[PHASE] = phase

    def afterwards(args, kwargs, result):
        numbers[PHASE] = outer.pop() if outer else 0
        if after is not None and result is not ... and not outer:
            after(args, kwargs or {}, result)

    return {"before": before, "after": afterwards}


def path_of(argument):
    if isinstance(argument, (str, os.PathLike)):
        return os.path.abspath(os.fspath(argument))
    name = getattr(argument, "name", None)  # an open file
    return os.path.abspath(name) if isinstance(name, str) else None


def on_numpy(numpy):
    def loaded(args, kwargs, result):
        path = path_of(args[0] if args else kwargs.get("file"))
        if path is None:
            return
        archive = getattr(result, "zip", None)  # an .npz, which is never mapped
        mode = args[1] if len(args) > 1 else kwargs.get("mmap_mode")
        is_compressed = archive is not None and any(
            member.compress_type for member in archive.infolist()
        )
        is_mapped = archive is None and mode is not None
        box.put_file(path, "numpy.load", os.stat(path).st_size, is_mapped, is_compressed)

    hooks = around(IN_LOADING, loaded)
    numpy.load = native.wrap(numpy.load, **hooks)

    def mapped(args, kwargs, result):
        if numbers[PHASE] == IN_LOADING:
            return  # numpy.load maps through this class and tells of it itself
        path = path_of(args[1] if len(args) > 1 else kwargs.get("filename"))
        if path is not None:
            box.put_file(path, "numpy.memmap", os.stat(path).st_size, True)

    numpy.memmap.__new__ = native.wrap(numpy.memmap.__new__, after=_if_done(mapped))


def _if_done(function):
    def after(args, kwargs, result):
        if result is not ...:
            function(args, kwargs or {}, result)

    return after


def on_faiss(faiss):
    searching, building = around(IN_MINING), around(IN_INDEXING)

    def loaded(args, kwargs, result):
        path = path_of(args[0] if args else kwargs.get("fname"))
        if path is not None:
            flags = args[1] if len(args) > 1 else kwargs.get("io_flags", 0)
            is_mapped = bool(flags & getattr(faiss, "IO_FLAG_MMAP", 0)) if flags else False
            box.put_file(path, "faiss.read_index", os.stat(path).st_size, is_mapped)

    faiss.read_index = native.wrap(faiss.read_index, **around(IN_LOADING, loaded))
    if hasattr(faiss, "knn"):
        faiss.knn = native.wrap(faiss.knn, **searching)
    methods = (("search", searching), ("range_search", searching), ("train", building))
    methods += (("add", building), ("add_with_ids", building))
    for thing in list(vars(faiss).values()):
        # faiss gives each index class its own Python methods over the generated ones.
        if isinstance(thing, type) and thing.__name__.startswith("Index"):
            for name, hooks in methods:
                if name in vars(thing):
                    setattr(thing, name, native.wrap(vars(thing)[name], is_method=True, **hooks))
