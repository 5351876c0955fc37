"""A pickle of plain values, read without ever calling anything.

In: bytes. Out: dicts with text as keys, lists, tuples, text, bytes, numbers, booleans and None.
Promises: an instruction that would import, call or build anything else is refused as soon as it is
met; the number of instructions, and by it time and memory, is bounded.

Why not `pickle.Unpickler` with a `find_class` that refuses: it runs no foreign code either, but a
key of tuples within tuples takes it for ever to hash or ends the process, and one place in the memo
with a high number has it ask for gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

MOST_INSTRUCTIONS = 3_000_000  # 2,000 collectives with 100 frames each have half of them


class NotPlain(ValueError):
    """It holds more than plain values, is damaged, or is too long."""


class _Stop(Exception):
    pass


def read_plain(raw: bytes, most_instructions: int = MOST_INSTRUCTIONS) -> Any:
    reader = _Reader(raw)
    steps = reader.steps()
    try:
        for _ in range(most_instructions):
            step = steps.get(raw[reader.at])
            if step is None:
                raise NotPlain(f"instruction {raw[reader.at : reader.at + 1]!r} is no plain value")
            reader.at += 1
            step()
    except _Stop:
        return reader.stack[-1]
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise NotPlain(f"it is damaged at byte {reader.at:,}") from error
    raise NotPlain(f"it has more than {most_instructions:,} instructions")


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.at = 0
        self.stack: list[Any] = []
        self._raw = raw
        self._outer: list[list[Any]] = []  # the stacks below each mark
        self._memo: dict[int, Any] = {}

    def steps(self) -> dict[int, Callable[[], None]]:
        def push(value: Any) -> Callable[[], None]:
            return lambda: self.stack.append(value)

        def tuple_of(count: int) -> Callable[[], None]:
            return lambda: self._tuple(count)

        by_code: dict[bytes, Callable[[], None]] = {
            b"\x80": lambda: self._skip(1),  # version of the protocol
            b"\x95": lambda: self._skip(8),  # length of a frame
            b".": self._stop,
            b"N": push(None),
            b"\x88": push(True),
            b"\x89": push(False),
            b"}": lambda: self.stack.append({}),
            b"]": lambda: self.stack.append([]),
            b")": push(()),
            b"(": self._mark,
            b"u": lambda: self._set_items(self._since_mark()),
            b"s": lambda: self._set_items([self.stack.pop(-2), self.stack.pop()]),
            b"e": lambda: self._extend(self._since_mark()),
            b"a": lambda: self._extend([self.stack.pop()]),
            b"t": lambda: self.stack.append(tuple(self._since_mark())),
            b"\x85": tuple_of(1),
            b"\x86": tuple_of(2),
            b"\x87": tuple_of(3),
            b"K": lambda: self.stack.append(self._number("<B")),
            b"M": lambda: self.stack.append(self._number("<H")),
            b"J": lambda: self.stack.append(self._number("<i")),
            b"G": lambda: self.stack.append(self._number(">d")),
            b"\x8a": lambda: self._long(self._number("<B")),
            b"\x8c": lambda: self._text(self._number("<B")),
            b"X": lambda: self._text(self._number("<I")),
            b"C": lambda: self.stack.append(self._bytes(self._number("<B"))),
            b"B": lambda: self.stack.append(self._bytes(self._number("<I"))),
            b"q": lambda: self._put(self._number("<B")),
            b"r": lambda: self._put(self._number("<I")),
            b"\x94": lambda: self._put(len(self._memo)),
            b"h": lambda: self.stack.append(self._memo[self._number("<B")]),
            b"j": lambda: self.stack.append(self._memo[self._number("<I")]),
        }
        return {code[0]: step for code, step in by_code.items()}

    def _skip(self, count: int) -> None:
        self.at += count

    def _stop(self) -> None:
        if self._outer or len(self.stack) != 1:
            raise NotPlain("it does not end with one value")
        raise _Stop

    def _number(self, shape: str) -> Any:
        (value,) = struct.unpack_from(shape, self._raw, self.at)
        self.at += struct.calcsize(shape)
        return value

    def _bytes(self, count: int) -> bytes:
        value = self._raw[self.at : self.at + count]
        if len(value) < count:
            raise NotPlain("it is cut off")
        self.at += count
        return value

    def _long(self, count: int) -> None:
        self.stack.append(int.from_bytes(self._bytes(count), "little", signed=True))

    def _text(self, count: int) -> None:
        self.stack.append(self._bytes(count).decode("utf-8", "replace"))

    def _put(self, place: int) -> None:
        self._memo[place] = self.stack[-1]

    def _mark(self) -> None:
        self._outer.append(self.stack)
        self.stack = []

    def _since_mark(self) -> list[Any]:
        values = self.stack
        self.stack = self._outer.pop()
        return values

    def _tuple(self, count: int) -> None:
        if len(self.stack) < count:
            raise NotPlain("it is damaged")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise NotPlain("it is damaged")
        target.extend(values)

    def _set_items(self, values: list[Any]) -> None:
        target = self.stack[-1]
        keys = values[::2]
        if type(target) is not dict or len(values) % 2 or any(type(k) is not str for k in keys):
            raise NotPlain("it has keys that are no text")
        target.update(zip(keys, values[1::2], strict=True))
