"""Which containers hold more than before, and by what name does the program know them?

Comes in: the program's frame that made the step, and how many elements each container held at the
first census. Goes out: the containers that grew, with a sample of what is new in them. The walk
goes from what the program can name (local variables, globals of modules) down to what that refers
to, nearest first, so that whatever is found has a name. Promises: bounded in time and in objects;
of a long container a few elements are looked at; attributes are not asked for, the garbage
collector's list of references is. References are held until the walk ends, not longer.
"""

import functools
import gc
import sys
import types
from collections import OrderedDict, defaultdict, deque
from itertools import islice
from time import thread_time

import rerail_imports

names = rerail_imports.hook_module("rerail_census_names")
sizes = rerail_imports.hook_module("rerail_census_sizes")

WALK_SECONDS = 0.06  # of this thread's own time
MOST_OBJECTS = 60000
MOST_OBJECTS_IN_WORKER = 2000  # each touched may copy a page that was shared
FEW = 64  # a container up to this length is followed whole
SAMPLE = 24
LEAST_NEW = 6
MOST_GROWN = 6
MOST_BUFFERS = 12
LEAST_BUFFER = 1 << 20
MANY = 5000  # elements of a container that a loader's worker may copy by reading them

# What can hold many things: the built-in class whose methods are used, whatever a subclass does.
_CONTAINERS = (dict, list, deque, set)
_LEAVES = {str, bytes, bytearray, int, float, complex, bool, type(None), type(Ellipsis)}
_LEAVES |= {type(sys), types.CodeType, types.FrameType, types.BuiltinFunctionType}
_LEAVES |= {types.GetSetDescriptorType, types.MemberDescriptorType}
_LEAVES |= {types.WrapperDescriptorType, types.MethodDescriptorType}
_TEXTS = (str, bytes, bytearray)
_bases = {dict: dict, list: list, deque: deque, set: set, OrderedDict: dict, defaultdict: dict}


def base_of(kind):
    """The container that it is or that its class was derived from; None for any other."""
    for base in _CONTAINERS:
        if issubclass(kind, base):
            return base
    return None


class Walk:
    """Everything that was reached: objects, and for each the index of the one that led to it."""

    def __init__(self, frame, is_worker):
        self.objects = []
        self.parents = []
        self.seen = set()
        self.containers = []  # (index, length)
        self.buffers = []  # (index, bytes) of large things without parts
        self.quiet, self.array = sizes.quiet_torch(), sizes.numpy_array()
        self.limit = MOST_OBJECTS_IN_WORKER if is_worker else MOST_OBJECTS
        self.deadline = thread_time() + WALK_SECONDS
        self.roots = names.Roots(frame, is_worker)
        self.is_complete = False

    def go(self):
        """First all that is the program's own, then what libraries keep in their globals."""
        for number, value in enumerate(self.roots.values):
            self._add(value, -1 - number)
        self.is_complete = self._follow_from(0)
        if not self.is_complete:
            return
        for value, label in self.roots.library_containers(_is_container):
            if id(value) not in self.seen:
                self.roots.labels.append(label)
                self._add(value, -len(self.roots.labels))
                self._note_library_container(len(self.objects) - 1)

    def _note_library_container(self, at):
        """Itself alone: what libraries keep inside each other is theirs to know."""
        o = self.objects[at]
        if type(o) is not functools._lru_cache_wrapper:
            self._note_container(at, o, _bases[type(o)])
            return
        for child in gc.get_referents(o):
            if type(child) is dict and id(child) not in self.seen:
                self._add(child, at)
                self._note_container(len(self.objects) - 1, child, dict)

    def _note_container(self, at, o, base):
        length = base.__len__(o)
        if length >= LEAST_NEW:
            self.containers.append((at, length))
        return length

    def _follow_from(self, at):
        while at < len(self.objects):
            if at >= self.limit or (at & 127 == 0 and thread_time() > self.deadline):
                return False
            self._follow(at)
            at += 1
        return True

    def _add(self, o, parent):
        kind = type(o)
        if id(o) in self.seen:
            return
        if kind in _LEAVES and (kind not in _TEXTS or len(o) < LEAST_BUFFER):
            return
        self.seen.add(id(o))
        self.objects.append(o)
        self.parents.append(parent)

    def _follow(self, at):
        o = self.objects[at]
        kind = type(o)
        base = _bases.get(kind)
        if base is None and kind not in _bases:
            base = base_of(kind)
        if base is not None:
            length = self._note_container(at, o, base)
            children = some_of(o, base, length)
            if kind is not base and kind not in _bases:
                # The attributes of an object that is itself a container.
                children += [] if length > FEW else gc.get_referents(o)
        elif kind in (tuple, frozenset):
            children = islice(o, FEW)
        elif kind is types.FunctionType:
            children = [value for _, value in names.variables_of(o)]
        elif kind is self.array or kind in _TEXTS or (self.quiet and kind in self.quiet[1]):
            size = sizes.buffer_bytes(o, self.quiet, self.array)
            if size >= LEAST_BUFFER:
                self.buffers.append((at, size))
            return
        elif self.roots.is_passed_over(kind, o):
            return
        else:
            children = gc.get_referents(o)[: 4 * FEW]
        for child in children:
            self._add(child, at)


def _is_container(kind):
    return kind in _bases or kind is functools._lru_cache_wrapper


def some_of(o, base, length):
    """All elements of a short container, the last and the first few of a long one."""
    if base is dict:
        if length <= FEW:
            return list(dict.values(o))
        if type(o) is dict:
            return list(islice(reversed(o.values()), 8))
        return list(islice(dict.values(o), 8))
    if base is list:
        return list(list.__getitem__(o, slice(-8, None) if length > FEW else slice(None)))
    return list(islice(base.__iter__(o), FEW if length <= FEW else 8))


def newest_of(o, base, length, count):
    """Up to SAMPLE of the `count` elements that came last; of a set, any."""
    if base is list:
        stride = max(1, count // SAMPLE)
        return [list.__getitem__(o, i) for i in range(length - 1, length - 1 - count, -stride)]
    if base is dict:
        if type(o) is dict:
            return list(islice(reversed(o.values()), min(count, SAMPLE)))
        return list(islice(dict.values(o), max(0, length - min(count, SAMPLE)), None))
    if base is deque:
        return list(islice(deque.__reversed__(o), min(count, SAMPLE)))
    return list(islice(base.__iter__(o), min(count, SAMPLE)))


def census(frame, before, grown_anywhere, is_worker):
    """What to write of one walk. `before` is a Before of the first census, filled by it."""
    walk = Walk(frame, is_worker)
    try:
        walk.go()
        written = {"walk_is_complete": walk.is_complete, "objects": len(walk.objects)}
        if before.is_first:
            before.lengths = {id(walk.objects[at]): length for at, length in walk.containers}
            before.buffers = {told["path"]: size for size, told in _buffers(walk) if "path" in told}
            return written
        grown = [_describe(walk, *each) for each in _grown(walk, before.lengths)]
        grown += _grown_buffers(walk, before.buffers)
        grown.sort(key=lambda told: -_weight(told))
        written["grown"] = [told for told in grown if "name" in told]
        written["unnamed"] = _unnamed(walk, grown_anywhere)
        if is_worker:
            written["read"] = [
                _describe(walk, length, 0, at) for at, length in walk.containers if length >= MANY
            ][:MOST_GROWN]
        return written
    finally:
        walk.roots.forget()
        del walk


class Before:
    """What the first census found, without a reference to any of it."""

    def __init__(self):
        self.is_first = True
        self.lengths = {}  # id of a container that has a name -> elements
        self.all_lengths = {}  # the same of long containers, named or not
        self.has_all_lengths = False
        self.buffers = {}  # path of a large array or text -> bytes


def _grown(walk, lengths):
    """(length, length before, index), those that hold the most of what is new first."""
    found = []
    for at, length in walk.containers:
        before = lengths.get(id(walk.objects[at]), 0)
        if length - before >= LEAST_NEW:
            found.append((length, before, at))
    found.sort(key=lambda each: each[1] - each[0])
    # The longest are not the largest: a few more are measured than can be told.
    measured = [(each, _weight(sample(walk.objects[each[2]], *each[:2]))) for each in found[:24]]
    measured.sort(key=lambda pair: -pair[1])
    return [each for each, weight in measured[:MOST_GROWN] if weight]


def _weight(told):
    return (told["bytes_each"] + told["graphs"]) * (told["length"] - told["before"])


def _unnamed(walk, grown_anywhere):
    """Containers that grew, wherever they are, and that the walk did not come to."""
    unknown = [each for each in grown_anywhere if id(each[0]) not in walk.seen]
    unknown.sort(key=lambda each: each[2] - each[1])
    told = [sample(*each) for each in unknown[:8]]
    return sorted(told, key=lambda each: -_weight(each))[:2]


def _buffers(walk):
    """(bytes, name) of the largest things without parts."""
    found = sorted(((size, at) for at, size in walk.buffers), reverse=True)
    return [(size, names.name_of(walk, at)) for size, at in found[:MOST_BUFFERS]]


def _grown_buffers(walk, before):
    found = []
    for size, told in _buffers(walk):
        old = before.get(told.get("path"), 0)
        if told and size - old >= LEAST_BUFFER:
            more = {"kind": "buffer", "length": size, "before": old, "bytes_each": 1, "graphs": 0}
            found.append(dict(told, **more))
    return found[:2]


def sample(o, length, before):
    """What the elements are that came last, from a few of them."""
    base = base_of(type(o))
    newest = newest_of(o, base, length, length - before)
    measure = sizes.Measure()
    # What all elements share is seen with the first one, which is therefore not counted.
    total, objects, counted, graphs, kinds = 0, 0, 0, 0, {}
    for number, element in enumerate(newest):
        size, count, kind, has_graph = measure.of(element)
        graphs += has_graph
        kinds[kind] = kinds.get(kind, 0) + 1
        if number or len(newest) == 1:
            total += size
            objects += count
            counted += 1
    counted = max(counted, 1)
    told = {
        "kind": base.__name__,
        "length": length,
        "before": before,
        "bytes_each": total // counted,
        "objects_each": round(objects / counted, 2),
        "holds": max(kinds, key=kinds.get) if kinds else "",
        "alike": max(kinds.values()) if kinds else 0,
        "looked_at": len(newest),
        "graphs": graphs,
    }
    if type(o) is not base:
        told["class_name"] = sizes.name_of(type(o))
    return told


def _describe(walk, length, before, at):
    return dict(sample(walk.objects[at], length, before), **names.name_of(walk, at))
