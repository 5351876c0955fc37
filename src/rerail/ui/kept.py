"""Answers that are kept while what they were made from has not changed.

In: a key, a stamp and how to make the value. Out: the value, made once however many ask at the same
time. Of one kind at most `most` are kept, the latest used.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[Any, T]] = OrderedDict()
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: str, stamp: Any, make: Callable[[], T]) -> T:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._lock:
                kept = self._values.get(key)
                if kept is not None and kept[0] == stamp:
                    self._values.move_to_end(key)
                    return kept[1]
            value = make()
            with self._lock:
                self._values[key] = (stamp, value)
                self._values.move_to_end(key)
                while len(self._values) > self._most:
                    gone, _ = self._values.popitem(last=False)
                    self._locks.pop(gone, None)
            return value
