"""What was found in a pickle: names, tensor storages, and bytes that hold pickles themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rerail.checkpoints.formats.pickle_names import Name, judge

ELEMENT_BYTES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("ByteStorage", "CharStorage", "BoolStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("QInt8Storage", "QUInt8Storage"), 1),
    "ComplexDoubleStorage": 16,
}


@dataclass(frozen=True, slots=True)
class Storage:
    """A tensor's memory that lies outside of the pickle."""

    key: str
    elements: int
    element_bytes: int | None  # None: of a kind that is not known here

    @property
    def size_bytes(self) -> int | None:
        return None if self.element_bytes is None else self.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class Nested:
    """Bytes in a pickle: where they lie in the file."""

    offset: int
    length: int
    is_text: bool = False  # protocol 2 has no bytes: they are a text of the first 256 characters


@dataclass
class PickleContents:
    names: set[Name] = field(default_factory=set)
    called: set[Name] = field(default_factory=set)
    storages: dict[str, Storage] = field(default_factory=dict)
    nested: list[Nested] = field(default_factory=list)  # tensors that were pickled into bytes
    texts: list[str] = field(default_factory=list)  # short ones, in order, if asked for
    result: Any = None  # where it is a number, a short text, or a tuple of them

    def judge(self) -> frozenset[str]:
        """The program's own classes in it; raises `Torn` where it would do harm."""
        return judge(self.names, self.called)
