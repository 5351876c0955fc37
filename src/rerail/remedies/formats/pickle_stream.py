"""What a pickle holds, read from its opcodes; no opcode is executed.

In: a file positioned at a pickle. Out: the names that it would import and the tensor storages that
it refers to; the file stands behind the pickle's last opcode. Promises: a pickle that ends early,
underflows its stack or refers to what is not there is `Torn`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from rerail.remedies.formats.torn import Torn

# What no checkpoint has a reason to call when it is loaded.
_DANGEROUS_MODULES = {
    *("os", "posix", "nt", "subprocess", "pty", "shutil", "socket", "sys", "runpy"),
    *("importlib", "ctypes", "webbrowser", "commands", "asyncio", "multiprocessing"),
}
_DANGEROUS_BUILTINS = {"eval", "exec", "compile", "open", "input", "__import__", "execfile"}
_LONGEST_TEXT = 256  # names and keys are shorter; longer text is data
_ELEMENT_BYTES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("ByteStorage", "CharStorage", "BoolStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("QInt8Storage", "QUInt8Storage"), 1),
    "ComplexDoubleStorage": 16,
}


@dataclass(frozen=True)
class Name:
    """A class or function that unpickling would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def is_dangerous(self) -> bool:
        if self.module in ("builtins", "__builtin__"):
            return self.name in _DANGEROUS_BUILTINS
        return self.module.partition(".")[0] in _DANGEROUS_MODULES


@dataclass(frozen=True)
class Storage:
    """A tensor's memory that lies outside of the pickle."""

    key: str
    elements: int
    element_bytes: int | None  # None: of a kind that is not known here

    @property
    def size_bytes(self) -> int | None:
        return None if self.element_bytes is None else self.elements * self.element_bytes


@dataclass
class PickleContents:
    names: set[Name] = field(default_factory=set)
    storages: dict[str, Storage] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)  # short ones, in order, if asked for
    result: Any = None  # where it is a number, a short text, or a tuple of them

    def refuse_dangerous(self) -> None:
        found = sorted(str(name) for name in self.names if name.is_dangerous)
        if found:
            raise Torn(f"loading it would call {found[0]}, which no checkpoint needs")


class _Mark:
    pass


_MARK = _Mark()


class _Reader:
    """The stack and memo of an unpickler in which only names, texts and numbers have a value."""

    def __init__(self, *, keeps_texts: bool) -> None:
        self.contents = PickleContents()
        self._keeps_texts = keeps_texts
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def step(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        name = opcode.name
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            at = len(self._memo) if name == "MEMOIZE" else int(argument)
            self._memo[at] = self._top()
            return
        taken = self._take(opcode)
        if name in ("GET", "BINGET", "LONG_BINGET"):
            if int(argument) not in self._memo:
                raise Torn("its pickle refers to what is not in it")
            self._stack.append(self._memo[int(argument)])
        elif name == "STOP":
            self.contents.result = taken[0] if taken else None
        else:
            self._stack.extend(self._made(opcode, argument, taken))

    def _top(self) -> Any:
        if not self._stack:
            raise Torn("its pickle is damaged: the stack runs empty")
        return self._stack[-1]

    def _take(self, opcode: pickletools.OpcodeInfo) -> list[Any]:
        before = opcode.stack_before
        count = len(before)
        above: list[Any] = []
        pops_mark = opcode.name == "POP" and self._stack and self._stack[-1] is _MARK
        if pickletools.markobject in before or pops_mark:
            while self._top() is not _MARK:
                above.append(self._stack.pop())
            self._stack.pop()
            count = 0 if pops_mark else before.index(pickletools.markobject)
        if count > len(self._stack):
            raise Torn("its pickle is damaged: the stack runs empty")
        below = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return below + above[::-1]

    def _made(
        self, opcode: pickletools.OpcodeInfo, argument: Any, taken: list[Any]
    ) -> Sequence[Any]:
        name = opcode.name
        if name == "MARK":
            return [_MARK]
        if name in ("GLOBAL", "INST"):
            module, _, attribute = str(argument).partition(" ")
            return [self._note(module, attribute)]
        if name == "STACK_GLOBAL":
            if not all(isinstance(each, str) for each in taken):
                raise Torn("its pickle makes up the names that it imports")
            return [self._note(*taken)]
        if name in ("BINPERSID", "PERSID"):
            self._note_storage(taken[0] if taken else argument)
            return [None]
        if name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE"):
            return [tuple(taken) if len(taken) <= 8 else None]
        if name == "DUP":
            return [taken[0], taken[0]]
        if isinstance(argument, str) and len(argument) <= _LONGEST_TEXT:
            if self._keeps_texts:
                self.contents.texts.append(argument)
            return [argument] * len(opcode.stack_after)
        if isinstance(argument, int):
            return [argument] * len(opcode.stack_after)
        return [None] * len(opcode.stack_after)

    def _note(self, module: str, attribute: str) -> Name:
        if not (module and attribute and f"{module}{attribute}".isprintable()):
            raise Torn("its pickle is damaged: it names what cannot be imported")
        name = Name(module, attribute)
        self.contents.names.add(name)
        return name

    def _note_storage(self, value: Any) -> None:
        if not (isinstance(value, tuple) and len(value) >= 5 and value[0] == "storage"):
            return
        _, kind, key, _, elements = value[:5]
        if not (isinstance(kind, Name) and isinstance(key, str) and isinstance(elements, int)):
            return
        size = _ELEMENT_BYTES.get(kind.name) if kind.module.startswith("torch") else None
        self.contents.storages[key] = Storage(key, elements, size)


def read_pickle(file: IO[bytes], *, keeps_texts: bool = False) -> PickleContents:
    reader = _Reader(keeps_texts=keeps_texts)
    try:
        for opcode, argument, _ in pickletools.genops(file):
            reader.step(opcode, argument)
    except Torn:
        raise
    except Exception as error:
        # pickletools promises ValueError and raises others too when arguments are cut off.
        raise Torn(f"its pickle is cut off or damaged ({_short(error)})") from None
    return reader.contents


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:60] or type(error).__name__
