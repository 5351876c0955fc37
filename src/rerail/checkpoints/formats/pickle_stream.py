"""What a pickle holds, read from its opcodes; no opcode is executed.

In: a file positioned at a pickle. Out: the names that it would import and call, and the tensor
storages that it refers to; the file stands behind the pickle's last opcode. Promises: a pickle that
ends early, underflows its stack or refers to what is not there is `Torn`, and so is one with an
opcode that no pickler of its protocol writes; one that asks for more time or memory than the bounds
below is `Unfinished`. Bytes and long texts are stepped over, not read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import IO, Any, NoReturn

from rerail.checkpoints.formats.budget import Budget
from rerail.checkpoints.formats.outcome import Torn, Unfinished
from rerail.checkpoints.formats.pickle_contents import (
    ELEMENT_BYTES,
    Nested,
    PickleContents,
    Storage,
)
from rerail.checkpoints.formats.pickle_names import Name, leads_inside

_LONGEST_TEXT = 256  # names and keys are shorter; longer text is data
_LONGEST_NUMBER_BYTES = 16
_MOST_ELEMENTS = 8  # tuples with a meaning here have at most six
_SHORTEST_NESTED_BYTES = 64  # shorter bytes cannot hold a pickled tensor
_OPCODES_PER_LOOK = 2048  # between two looks at the clock
# Python's pickler recurses, so its nesting ends at the recursion limit.
_DEEPEST_MARKS = 100_000
# Together below half a gigabyte. Lists and dicts are written a thousand at a time; a tuple is not.
_LONGEST_STACK = 10_000_000
_LONGEST_STACK_WITH_VALUES = 500_000
_LARGEST_MEMO = 10_000_000
_MOST_MEMO_VALUE_BYTES = 150 << 20
_VALUE_BYTES = 120  # of a number, a small tuple, or a text without its characters
_MOST_NAMES = 20_000
_MOST_STORAGES = 500_000
_GETATTR = {Name("builtins", "getattr"), Name("__builtin__", "getattr")}
_OR = {Name("_operator", "or_"), Name("operator", "or_")}
_TEXT_TO_BYTES = Name("_codecs", "encode")
_PICKLED_TENSOR = Name("torch.storage", "_load_from_bytes")
# These call the classes and functions that they are given.
_CALL_THEIR_ARGUMENTS = {
    *(Name("copyreg", each) for each in ("_reconstructor", "__newobj__", "__newobj_ex__")),
    *(Name("copy_reg", each) for each in ("_reconstructor", "__newobj__", "__newobj_ex__")),
    *(Name("torch._tensor", each) for each in ("_rebuild_from_type", "_rebuild_from_type_v2")),
}
# Its arrays' bytes lie between the opcodes, which nobody can step over without its reader.
_JOBLIB_ARRAY = Name("joblib.numpy_pickle", "NumpyArrayWrapper")


class _PlacedText(str):
    """A short text that may be a name or, in protocol 2, the bytes of a small tensor."""

    __slots__ = ("place",)
    place: Nested


class _Walk:
    """The stack and memo of an unpickler in which only names, texts and numbers have a value."""

    def __init__(self, file: IO[bytes], end: int, *, keeps_texts: bool) -> None:
        self.contents = PickleContents()
        self._file = file
        self._end = end
        self._keeps_texts = keeps_texts
        self._stack: list[Any] = []
        self._marks: list[int] = []  # how long the stack was
        self._memo: list[Any] = []
        self._memo_value_bytes = 0
        self._known_names: dict[Name, Name] = {}  # one object each, however often it is named

    def run(self, budget: Budget) -> PickleContents:
        read = self._file.read
        count = 0
        budget.spend_opcodes()  # a file may hold a million small pickles
        while True:
            code = read(1)
            if code == b".":
                self.contents.result = self._pop()
                if self._file.tell() > self._end:
                    raise Torn("its pickle does not end where it should")
                return self.contents
            action = _ACTIONS.get(code)
            if action is None:
                raise Torn(
                    f"its pickle has an opcode that no pickler writes ({code!r})"
                    if code
                    else "its pickle is cut off"
                )
            action(self)
            count += 1
            if count % _OPCODES_PER_LOOK == 0:
                budget.spend_opcodes()
                self._keep_within_bounds()

    def _keep_within_bounds(self) -> None:
        if len(self._marks) > _DEEPEST_MARKS:
            raise Torn("its pickle is nested deeper than any pickler writes")
        contents = self.contents
        if (
            len(self._stack) > _LONGEST_STACK
            or len(self._memo) > _LARGEST_MEMO
            or self._memo_value_bytes > _MOST_MEMO_VALUE_BYTES
            or len(contents.storages) > _MOST_STORAGES
            or len(contents.nested) > _MOST_STORAGES
            or len(contents.texts) > _MOST_STORAGES
        ):
            raise Unfinished("its pickle has more objects than are kept in memory here")
        if len(contents.names) > _MOST_NAMES:
            raise Torn("its pickle names more classes than any program has")

    # ---- bytes ---------------------------------------------------------------------------------

    def _exactly(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise Torn("its pickle is cut off")
        return data

    def _number(self, width: int) -> int:
        return int.from_bytes(self._exactly(width), "little")

    def _skip(self, length: int) -> None:
        if length > self._end or self._file.seek(length, os.SEEK_CUR) > self._end:
            raise Torn("its pickle is cut off")

    def _line(self) -> str:
        line = self._file.readline(_LONGEST_TEXT + 1)
        if not line.endswith(b"\n"):
            raise Torn("its pickle is damaged: it names what cannot be imported")
        return line[:-1].decode("utf-8", "replace")

    # ---- the stack -----------------------------------------------------------------------------

    def _floor(self) -> int:
        return self._marks[-1] if self._marks else 0

    def _pop(self) -> Any:
        if len(self._stack) <= self._floor():
            raise Torn("its pickle is damaged: the stack runs empty")
        return self._stack.pop()

    def _need(self, count: int) -> None:
        if len(self._stack) - count < self._floor():
            raise Torn("its pickle is damaged: the stack runs empty")

    def _pop_mark(self) -> list[Any]:
        if not self._marks:
            raise Torn("its pickle is damaged: the stack runs empty")
        at = self._marks.pop()
        above = self._stack[at:]
        del self._stack[at:]
        return above

    def _push(self, value: Any) -> None:
        """Of a stack as long as this, only a huge tuple can be made, and nothing is looked up."""
        has_room = len(self._stack) < _LONGEST_STACK_WITH_VALUES or type(value) is Name
        self._stack.append(value if has_room else None)

    def _refuse(self, why: str) -> NoReturn:
        if len(self._stack) >= _LONGEST_STACK_WITH_VALUES:
            raise Unfinished("its pickle has a longer tuple than is kept in memory here")
        raise Torn(why)

    def push_opaque(self) -> None:
        self._stack.append(None)

    def skip_header(self, width: int) -> None:
        self._exactly(width)

    def push_skipped(self, width: int) -> None:
        self._exactly(width)
        self._stack.append(None)

    def push_number(self, code: struct.Struct) -> None:
        self._push(code.unpack(self._exactly(code.size))[0])

    def push_long(self, width: int) -> None:
        length = self._number(width)
        if length <= _LONGEST_NUMBER_BYTES:
            self._push(int.from_bytes(self._exactly(length), "little", signed=True))
        else:
            self._skip(length)
            self._stack.append(None)

    def push_text(self, width: int) -> None:
        length = self._number(width)
        if length > _LONGEST_TEXT:
            self._push(Nested(self._file.tell(), length, is_text=True))
            self._skip(length)
            return
        at = self._file.tell() if length >= _SHORTEST_NESTED_BYTES else 0
        text = self._exactly(length).decode("utf-8", "replace")
        if self._keeps_texts:
            self.contents.texts.append(text)
        if at:
            text = _PlacedText(text)
            text.place = Nested(at, length, is_text=True)
        self._push(text)

    def push_bytes(self, width: int) -> None:
        length = self._number(width)
        at = self._file.tell() if length >= _SHORTEST_NESTED_BYTES else 0
        self._skip(length)
        self._push(Nested(at, length) if at else None)

    # ---- the memo ------------------------------------------------------------------------------

    def put(self, width: int) -> None:
        self._need(1)
        value = self._stack[-1]
        at = self._number(width) if width else len(self._memo)
        if value is not None and type(value) is not Name:
            self._memo_value_bytes += _VALUE_BYTES + (len(value) if isinstance(value, str) else 0)
        if at == len(self._memo):
            self._memo.append(value)
        elif at < len(self._memo):
            self._memo[at] = value
        elif at == 1 and not self._memo:
            self._memo.extend((_NOTHING, value))  # Python 2 began to count at 1
        else:
            raise Torn("its pickle is damaged: it leaves numbers out")

    def get(self, width: int) -> None:
        at = self._number(width)
        if at >= len(self._memo) or self._memo[at] is _NOTHING:
            raise Torn("its pickle refers to what is not in it")
        self._stack.append(self._memo[at])

    # ---- containers ----------------------------------------------------------------------------

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def drop(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._pop()

    def drop_to_mark(self) -> None:
        self._pop_mark()

    def push_tuple_of(self, count: int) -> None:
        self._need(count)
        at = len(self._stack) - count
        values = self._stack[at:]
        del self._stack[at:]
        self._push(_flat(values))

    def push_marked_tuple(self) -> None:
        self._push(_flat(self._pop_mark()))

    def push_marked(self) -> None:
        self._pop_mark()
        self._stack.append(None)

    def add_marked(self) -> None:
        self._pop_mark()
        self._need(1)

    def add(self, count: int) -> None:
        self._need(count + 1)
        del self._stack[len(self._stack) - count :]

    # ---- what is imported and called -----------------------------------------------------------

    def push_global(self) -> None:
        self._stack.append(self._note(self._line(), self._line()))

    def push_stack_global(self) -> None:
        attribute, module = self._pop(), self._pop()
        if not (isinstance(module, str) and isinstance(attribute, str)):
            self._refuse("its pickle makes up the names that it imports")
        self._stack.append(self._note(module, attribute))

    def call(self) -> None:
        arguments, function = self._pop(), self._pop()
        given = arguments if isinstance(arguments, tuple) else ()
        self._note_call(function)
        made: Any = None
        if function in _GETATTR:
            made = self._attribute(given)
        elif function in _CALL_THEIR_ARGUMENTS:
            self.contents.called.update(each for each in given if isinstance(each, Name))
        elif function in _OR:
            made = self._union(given)
        elif function == _TEXT_TO_BYTES:
            text = given[0] if len(given) == 2 else None
            text = text.place if isinstance(text, _PlacedText) else text
            made = text if isinstance(text, Nested) else None
        elif function == _PICKLED_TENSOR:
            if len(given) != 1 or not isinstance(given[0], Nested):
                self._refuse("its pickle makes up the bytes of its tensors")
            self.contents.nested.append(given[0])
        self._stack.append(made)

    def make_object(self, count: int) -> None:
        self._need(count + 1)
        del self._stack[len(self._stack) - count :]
        self._note_call(self._stack.pop())
        self._stack.append(None)

    def build(self) -> None:
        self._pop()
        self._need(1)
        if isinstance(self._stack[-1], Name):
            raise Torn(f"loading it would change {str(self._stack[-1])[:100]}, which it imports")

    def _attribute(self, given: tuple[Any, ...]) -> Name | None:
        """Python writes members of enumerations and bound methods as a call of getattr."""
        if len(given) != 2 or not isinstance(given[1], str):
            self._refuse("its pickle makes up the names that it imports")
        if isinstance(given[0], Name):
            return self._note(given[0].module, f"{given[0].name}.{given[1]}")
        if leads_inside(given[1]):
            raise Torn(f"loading it would look up {given[1][:100]}, which no checkpoint needs")
        return None

    def _union(self, given: tuple[Any, ...]) -> Name:
        """Of members of a flag, or of one with a number (bits without a name): a member too. Of
        anything else `|` may cost memory or run code, and no pickler writes it."""
        has_member = len(given) == 2 and isinstance(given[0], Name)
        if not has_member or not isinstance(given[1], (Name, int)):
            self._refuse("loading it would call or_ on what is no flag, which no checkpoint needs")
        first: Name = given[0]
        return first

    def _note(self, module: str, attribute: str) -> Name:
        if not (module and attribute and f"{module}{attribute}".isprintable()):
            raise Torn("its pickle is damaged: it names what cannot be imported")
        name = Name(module, attribute)
        if name == _JOBLIB_ARRAY:
            raise Unfinished("joblib puts arrays between the opcodes of its pickle")
        self.contents.names.add(name)
        return self._known_names.setdefault(name, name)

    def _note_call(self, function: Any) -> None:
        if not isinstance(function, Name):
            self._refuse("loading it would call what it makes up or carries as code")
        self.contents.called.add(function)

    def push_storage(self) -> None:
        value = self._pop()
        if not (isinstance(value, tuple) and len(value) >= 2 and isinstance(value[1], Name)):
            self._stack.append(None)
            return
        # Before 1.6 the class of a model came with its source, for a warning if that has changed.
        self._stack.append(value[1] if value[0] == "module" else None)
        if len(value) < 5 or value[0] != "storage":
            return
        _, kind, key, _, elements = value[:5]
        if not (isinstance(key, str) and isinstance(elements, int)):
            return
        size = ELEMENT_BYTES.get(kind.name) if kind.module.startswith("torch") else None
        self.contents.storages[key] = Storage(key, elements, size)


_NOTHING = object()


def _flat(values: list[Any]) -> tuple[Any, ...] | None:
    """Tuples in tuples have no meaning here, and may be shared without end."""
    if len(values) > _MOST_ELEMENTS:
        return None
    return tuple(None if type(each) is tuple else each for each in values)


def _with(method: Callable[[_Walk, Any], None], argument: Any) -> Callable[[_Walk], None]:
    return lambda walk: method(walk, argument)


# Protocols 2 to 5 as their picklers write them. Left out: the textual opcodes of protocol 0, INST
# and OBJ, numbered names (EXT), DUP, and buffers outside of the file.
_ACTIONS: dict[bytes, Callable[[_Walk], None]] = {
    **dict.fromkeys((b"N", b"\x88", b"\x89", b"}", b"]", b"\x8f"), _Walk.push_opaque),
    b"\x80": _with(_Walk.skip_header, 1),
    b"\x95": _with(_Walk.skip_header, 8),
    b"G": _with(_Walk.push_skipped, 8),
    b"K": _with(_Walk.push_number, struct.Struct("<B")),
    b"M": _with(_Walk.push_number, struct.Struct("<H")),
    b"J": _with(_Walk.push_number, struct.Struct("<i")),
    b"\x8a": _with(_Walk.push_long, 1),
    b"\x8b": _with(_Walk.push_long, 4),
    **dict.fromkeys((b"\x8c", b"U"), _with(_Walk.push_text, 1)),
    **dict.fromkeys((b"X", b"T"), _with(_Walk.push_text, 4)),
    b"\x8d": _with(_Walk.push_text, 8),
    b"C": _with(_Walk.push_bytes, 1),
    b"B": _with(_Walk.push_bytes, 4),
    **dict.fromkeys((b"\x8e", b"\x96"), _with(_Walk.push_bytes, 8)),
    b"q": _with(_Walk.put, 1),
    b"r": _with(_Walk.put, 4),
    b"\x94": _with(_Walk.put, 0),
    b"h": _with(_Walk.get, 1),
    b"j": _with(_Walk.get, 4),
    b"(": _Walk.mark,
    b"0": _Walk.drop,
    b"1": _Walk.drop_to_mark,
    b")": _with(_Walk.push_tuple_of, 0),
    b"\x85": _with(_Walk.push_tuple_of, 1),
    b"\x86": _with(_Walk.push_tuple_of, 2),
    b"\x87": _with(_Walk.push_tuple_of, 3),
    b"t": _Walk.push_marked_tuple,
    b"\x91": _Walk.push_marked,
    **dict.fromkeys((b"e", b"u", b"\x90"), _Walk.add_marked),
    b"a": _with(_Walk.add, 1),
    b"s": _with(_Walk.add, 2),
    b"c": _Walk.push_global,
    b"\x93": _Walk.push_stack_global,
    b"R": _Walk.call,
    b"\x81": _with(_Walk.make_object, 1),
    b"\x92": _with(_Walk.make_object, 2),
    b"b": _Walk.build,
    b"Q": _Walk.push_storage,
}


def read_pickle(
    file: IO[bytes], end: int, budget: Budget, *, keeps_texts: bool = False
) -> PickleContents:
    """`end`: where in the file the pickle ends at the latest."""
    try:
        return _Walk(file, end, keeps_texts=keeps_texts).run(budget)
    except (OverflowError, ValueError):
        raise Torn("its pickle is damaged: it holds a length that no file has") from None
