"""How large is what a program keeps? Tensors by shape, the C heap, the elements of a container.

Comes in: objects of the program. Goes out: numbers and words. Promises: an object is asked for
something only if its type is exactly one that is known and answers from memory (built-in types,
numpy's array, torch's tensor); of any other one only the garbage collector's own list of what it
refers to is used, which runs no code of the program.
"""

import gc
import sys
from collections import deque
from contextlib import nullcontext
from time import thread_time

MOST_BLOCKS = 6000000  # of memory for Python objects; the list of all objects takes 20 MB then
SCAN_SECONDS = 0.1  # of this thread's own time: a busy machine must not cut it short
CHUNK = 10000
MOST_GROUPS = 8
MOST_NODES = 300  # objects looked at below one element

_LEAVES = (str, bytes, bytearray, int, float, complex, bool, type(None))
_SHARED = (type, type(sys), type(lambda: 0), type(len))  # the program's text, not its data
# Past any metaclass of the program, which could answer with code of its own.
name_of = type.__dict__["__name__"].__get__
_basic_size_of = type.__dict__["__basicsize__"].__get__
_NUMBERS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


def _torch_types():
    """Only once the program has imported all of torch itself."""
    torch = sys.modules.get("torch")
    if torch is None or "torch.optim" not in sys.modules:
        return None, ()
    return torch, (torch.Tensor, sys.modules["torch.nn.parameter"].Parameter)


def quiet_torch():
    """(torch, tensor types, a context in which no mode of the program notices), or None."""
    torch, kinds = _torch_types()
    if torch is None:
        return None
    modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
    if modes is None or modes():
        return None
    return torch, kinds, torch._C.DisableTorchFunction


LONG = 32  # shorter containers are not worth remembering


def scan(before):
    """Over all objects that the collector knows: tensors by shape, and containers that grew.

    The first scan fills `before.all_lengths` (id of a container: how many it held); if it did not
    come to the end, a container that is not there may be old and is left out later. Out: (what to
    write, the grown containers themselves with their lengths, to be let go soon); ({}, []) if it
    cannot be.
    """
    if sys.getallocatedblocks() > MOST_BLOCKS or gc.get_freeze_count():
        return {}, []
    torch, kinds, without_modes = quiet_torch() or (None, (), nullcontext)
    tensors, longs = frozenset(kinds), frozenset((list, dict, deque, set))
    deadline = thread_time() + SCAN_SECONDS
    everything = gc.get_objects()
    seen = 0
    storages, groups, grown = set(), {}, []
    lengths = before.all_lengths
    unknown = 0 if before.has_all_lengths else sys.maxsize
    with without_modes():
        while seen < len(everything) and thread_time() < deadline:
            chunk = everything[seen : seen + CHUNK]
            seen += len(chunk)
            for tensor in [o for o in chunk if type(o) in tensors]:
                size = tensor_bytes(torch, tensor, storages)
                if size is None:
                    continue
                key = (tuple(tensor.shape), str(tensor.dtype), tensor.grad_fn is not None)
                count, total = groups.get(key, (0, 0))
                groups[key] = (count + 1, total + size)
            for o in [o for o in chunk if type(o) in longs and len(o) >= LONG]:
                if before.is_first:
                    lengths[id(o)] = len(o)
                elif len(o) - lengths.get(id(o), unknown) >= LONG:
                    grown.append((o, len(o), lengths.get(id(o), 0)))
    if before.is_first:
        before.has_all_lengths = seen == len(everything)
    written = {
        "seen_share": round(seen / len(everything), 3),
        "tracked": len(everything),
        "tensor_bytes": sum(size for _, size in groups.values()),
        "graph_tensor_bytes": sum(size for key, (_, size) in groups.items() if key[2]),
        "tensors": [_group(*item) for item in _largest(groups)],
    }
    del everything, chunk
    return written, grown


def _largest(groups):
    return sorted(groups.items(), key=lambda item: -item[1][1])[:MOST_GROUPS]


def _group(key, value):
    return {
        "shape": [int(side) for side in key[0]],
        "dtype": key[1].replace("torch.", ""),
        "has_graph": key[2],
        "count": value[0],
        "bytes": value[1],
    }


def tensor_bytes(torch, tensor, storages):
    """Bytes of its storage, 0 if that was counted already; None for one that is not in memory."""
    if not tensor.is_cpu or tensor.layout is not torch.strided:
        return None
    storage = tensor.untyped_storage()
    pointer = storage.data_ptr()
    if pointer in storages:
        return 0
    storages.add(pointer)
    return storage.nbytes()


def heap_bytes():
    """In use in the C heap, large blocks included; None where the C library does not say."""
    import ctypes

    class Info(ctypes.Structure):
        _fields_ = [("field%d" % i, ctypes.c_size_t) for i in range(10)]

    try:
        function = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    function.restype = Info
    info = function()
    return info.field4 + info.field7  # hblkhd, uordblks


def buffer_bytes(o, quiet, array):
    """Bytes of one large thing without parts: an array, a tensor, a text; 0 for anything else."""
    kind = type(o)
    if kind is array:
        return o.nbytes if o.base is None else 0
    if kind in (bytes, bytearray, str):
        return sys.getsizeof(o)
    if quiet is not None and kind in quiet[1]:
        with quiet[2]():
            return tensor_bytes(quiet[0], o, set()) or 0
    return 0


def numpy_array():
    return getattr(sys.modules.get("numpy"), "ndarray", None)


class Measure:
    """Bytes of a few elements of a container: what each has of its own, apart from the others."""

    def __init__(self):
        self.seen = set()
        self.storages = set()
        self.quiet = quiet_torch()
        self.array = numpy_array()

    def of(self, element):
        """(bytes, objects, kind in words, whether a graph hangs on it)"""
        total, count, has_graph, largest = 0, 0, False, (0, "")
        waiting = [element]
        nodes = 0
        while waiting and nodes < MOST_NODES:
            o = waiting.pop()
            if id(o) in self.seen:
                continue
            self.seen.add(id(o))
            nodes += 1
            kind = type(o)
            size, words = None, ""
            if kind in _LEAVES:
                size = sys.getsizeof(o)
            elif self.quiet is not None and kind in self.quiet[1]:
                size, words, graph = self._tensor(o)
                has_graph = has_graph or graph
            elif kind is self.array:
                size, words = self._array(o)
            elif kind in (list, tuple, dict, set, frozenset):
                size = sys.getsizeof(o)
                waiting.extend(gc.get_referents(o)[:MOST_NODES])
            elif issubclass(kind, _SHARED):
                continue
            else:
                size = _basic_size_of(kind)
                waiting.extend(gc.get_referents(o)[:MOST_NODES])
            count += 1
            total += size
            if size > largest[0]:
                largest = (size, words or name_of(kind))
        return total, count, largest[1], has_graph

    def _tensor(self, tensor):
        torch, _, without_modes = self.quiet
        with without_modes():
            size = tensor_bytes(torch, tensor, self.storages) or 0
            has_graph = tensor.grad_fn is not None
            shape = "(" + ", ".join(str(int(side)) for side in tensor.shape) + ")"
            words = "tensors %s %s" % (shape, str(tensor.dtype).replace("torch.", ""))
        return size + 64, words, has_graph

    def _array(self, array):
        dtype = array.dtype
        kind = _NUMBERS.get(dtype.kind)
        name = "%s%d" % (kind, dtype.itemsize * 8) if kind else dtype.str
        words = "arrays (%s) %s" % (", ".join(map(str, array.shape)), name)
        while type(array.base) is self.array:
            array = array.base
        if id(array) in self.storages:
            return 0, words
        self.storages.add(id(array))
        return 112 + (array.nbytes if array.base is None else 0), words
