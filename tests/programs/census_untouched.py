"""A program full of objects that tell when somebody asks them for anything; a census goes over it.

Prints one line for everything that was noticed, and at last "done". Holds things in many ways; what
the second census found is in the agent's folder.
"""

from __future__ import annotations

import dis  # noqa: F401  torch imports it as well
import functools
import gc
import signal
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any

SIZE = 1 << 16


def told(what: str) -> None:
    frame = sys._getframe(2)
    if "rerail_" in frame.f_code.co_filename:
        print("asked:", what)


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        told(f"class attribute {name}")
        return super().__getattribute__(name)

    def __instancecheck__(cls, instance: object) -> bool:
        told("isinstance")
        return False


class Touchy(metaclass=Meta):
    """Tells of every way in which an object can be asked for something."""

    def __getattribute__(self, name: str) -> Any:
        told(f"attribute {name}")
        return object.__getattribute__(self, name)

    @property
    def __class__(self) -> type:  # type: ignore[override]
        told("__class__")
        return int

    def __len__(self) -> int:
        told("len")
        return 5

    def __iter__(self) -> Any:
        told("iter")
        return iter(())

    def __eq__(self, other: object) -> bool:
        told("==")
        return self is other

    def __hash__(self) -> int:
        told("hash")
        return 1

    def __bool__(self) -> bool:
        told("bool")
        return True

    def __sizeof__(self) -> int:
        told("sizeof")
        return 1 << 40

    def __repr__(self) -> str:
        told("repr")
        return ""


class TouchyList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        told("len of a list")
        return 1 << 40

    def __iter__(self) -> Any:
        told("iter of a list")
        return iter(())

    def __getitem__(self, index: Any) -> Any:
        told("item of a list")
        raise IndexError


class TouchyDict(dict):  # type: ignore[type-arg]
    def __len__(self) -> int:
        told("len of a dict")
        return 1 << 40

    def values(self) -> Any:
        told("values of a dict")
        return ()


class LazyModule(types.ModuleType):
    def __getattribute__(self, name: str) -> Any:
        told(f"module attribute {name}")
        return super().__getattribute__(name)


class Slotted:
    __slots__ = ("kept", "unset")

    def __init__(self) -> None:
        self.kept: list[bytes] = []


class Holder:
    shared: list[bytes] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.other = 1
        self.history: list[bytes] = []


class Named(deque):  # type: ignore[type-arg]
    pass


@functools.lru_cache(maxsize=None)  # noqa: UP033
def cached(number: int) -> bytes:
    return bytes(SIZE)


def with_default(number: int, kept: list[bytes] = []) -> None:
    kept.append(bytes(SIZE))


def closure() -> Any:
    inside: dict[int, bytes] = {}

    def add(number: int) -> None:
        inside[number] = bytes(SIZE)

    return add


module_list: list[bytes] = []
touchy = Touchy()
touchy_list = TouchyList([Touchy() for _ in range(100)])
touchy_dict = TouchyDict({n: Touchy() for n in range(100)})
sys.modules["lazy_one"] = LazyModule("lazy_one")
rest = [OrderedDict(a=1), defaultdict(list), {Touchy()}, (Touchy(),)]


def keeps_its_locals() -> dict[str, Any]:
    """`locals()` in hand: until Python 3.12 the same dictionary as a frame's."""
    number = 1
    mine = locals()
    number = 2
    take()
    assert number == 2
    return mine


def census() -> Any:
    return sys.modules["rerail_imports"].hook_module("rerail_census")


WATCH = [census().Watch(False)]


def take(step: int = 10, used: int = 0) -> None:
    census()._take(WATCH[0], step, used)


class Thing:
    pass


def drops_a_local() -> None:
    """What the census saw must go when the program lets go of it."""
    thing = Thing()
    seen = weakref.ref(thing)
    take()
    del thing
    print("local went" if seen() is None else "local is kept")


def interrupts() -> None:
    """An exception of the program's own signal handler, raised in the midst of a look."""

    def handler(number: int, frame: Any) -> None:
        raise ValueError("mine")

    signal.signal(signal.SIGALRM, handler)
    module = census()
    original = module.resident_bytes
    module.resident_bytes = lambda: signal.raise_signal(signal.SIGALRM)
    try:
        module.look(1)
        print("the exception was lost")
    except ValueError:
        print("the exception came through")
    module.resident_bytes = original


def main() -> None:
    local: set[bytes] = set()
    nested: dict[str, list[bytes]] = {"a": [], "b": []}
    holder, slotted, named = Holder(), Slotted(), Named()
    add = closure()
    whole = [b""]  # one text that grows
    counts = [gc.get_count()[2], gc.isenabled(), gc.get_threshold()]
    mine = keeps_its_locals()
    print("locals as they were" if mine == {"number": 1} else f"locals changed: {mine}")
    drops_a_local()
    interrupts()
    references = sys.getrefcount(touchy), sys.getrefcount(holder)
    WATCH[0] = census().Watch(False)
    for step in range(1, 91):
        if step == 10:
            take(10, 0)
        which = sys.argv[1]
        text = bytes(SIZE + step)
        if which == "local":
            local.add(text)
        elif which == "nested":
            nested["ab"[step % 2]].append(text)
        elif which == "attribute":
            holder.history.append(text)
        elif which == "class":
            Holder.shared.append(text)
        elif which == "slot":
            slotted.kept.append(text)
        elif which == "subclass":
            named.append(text)
        elif which == "global":
            module_list.append(text)
        elif which == "default":
            with_default(step)
        elif which == "closure":
            add(step)
        elif which == "lru_cache":
            cached(step)
        elif which == "buffer":
            whole[0] += bytes(SIZE)
            buffer = whole[0]
            assert buffer
    del text
    take(90, 80 * SIZE)
    assert references == (sys.getrefcount(touchy), sys.getrefcount(holder)), "references were kept"
    assert counts[1:] == [gc.isenabled(), gc.get_threshold()]
    print("done")


main()
