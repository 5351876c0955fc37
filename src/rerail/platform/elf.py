"""Just enough ELF: exported names, sonames, build ids, and which function an address lies in.

In: a path. Out: answers read from a memory map, so that only the pages asked for are touched.
Why not pyelftools: it builds one object per symbol, and libtorch_cpu.so has 530,000 of them, 15 s
where a memoryview over the table needs 0.06 s. Promises: a file that is not a 64-bit
little-endian ELF, or is cut short, raises NotElf and nothing else.
"""

from __future__ import annotations

import lzma
import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_SONAME, _DT_GNU_HASH = 1, 5, 6, 14, 0x6FFFFEF5
_MOST_TAGS = 4096
_STT_NOTYPE, _STT_FUNC, _STT_IFUNC = 0, 2, 10
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_BYTES = 24
_WORDS_PER_SYMBOL = 3
# Symbols are first sifted by the 16 KiB that they start in or before, which finds nearly every
# function, then for the rest by the megabyte: MKL has kernels of several hundred KiB.
_SIFT_BITS = (14, 20)
_MOST_MINI_DEBUG_BYTES = 64 << 20
_MOST_NESTED = 64  # symbols inside symbols: aliases and labels of hand-written assembly


class NotElf(Exception):
    """Not a file whose symbols can be read here."""


class Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    file_bytes: int
    memory_bytes: int


class Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    name: str
    address: int
    size: int


def gnu_hash(name: bytes) -> int:
    """The hash of DT_GNU_HASH tables."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


class ElfFile:
    """An open ELF file; use as a context manager."""

    def __init__(self, path: str | Path) -> None:
        try:
            with Path(path).open("rb") as file:
                self._map: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise NotElf(f"{path}: {error}") from error
        self._read_header()

    @classmethod
    def from_bytes(cls, content: bytes) -> ElfFile:
        elf = cls.__new__(cls)
        elf._map = content
        elf._read_header()
        return elf

    def _read_header(self) -> None:
        if self._map[:6] != b"\x7fELF\x02\x01":
            self.close()
            raise NotElf("not a 64-bit little-endian ELF file")
        (
            self._program_at,
            self._sections_at,
            _flags,
            _header_bytes,
            self._program_entry_bytes,
            self._program_count,
            self._section_entry_bytes,
            self._section_count,
            self._section_names,
        ) = self._unpack("<QQIHHHHHH", 32)

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if isinstance(self._map, mmap.mmap):
            try:
                self._map.close()
            except BufferError:
                pass  # a view is still alive in a traceback; the map goes with it

    def _unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(layout, self._map, offset)
        except (struct.error, OverflowError) as error:  # or an offset that no file can have
            raise NotElf("cut short") from error

    @cached_property
    def segments(self) -> list[Segment]:
        found = []
        for index in range(self._program_count):
            at = self._program_at + index * self._program_entry_bytes
            kind, _flags, offset, address, _physical, file_bytes, memory_bytes, _align = (
                self._unpack("<IIQQQQQQ", at)
            )
            found.append(Segment(kind, offset, address, file_bytes, memory_bytes))
        return found

    @cached_property
    def sections(self) -> list[Section]:
        """Empty where the section table was stripped."""
        raw: list[tuple[int, ...]] = []
        for index in range(self._section_count if self._sections_at else 0):
            at = self._sections_at + index * self._section_entry_bytes
            raw.append(self._unpack("<IIQQQQIIQQ", at))
        if self._section_names >= len(raw):
            return []
        names_at = raw[self._section_names][4]
        return [
            Section(self._text(names_at + entry[0]), entry[1], entry[4], entry[5], entry[6])
            for entry in raw
        ]

    def _text(self, offset: int) -> str:
        end = self._map.find(b"\0", offset)
        if end < 0:
            raise NotElf("cut short")
        return self._map[offset:end].decode(errors="replace")

    def offset_of(self, address: int) -> int | None:
        """Where in the file the byte lies that is mapped at this address."""
        for segment in self.segments:
            if segment.kind == _PT_LOAD and (
                segment.address <= address < segment.address + segment.file_bytes
            ):
                return address - segment.address + segment.offset
        return None

    def address_of(self, offset: int) -> int | None:
        """The address, relative to where the library is loaded, of a byte of the file."""
        for segment in self.segments:
            if segment.kind == _PT_LOAD and (
                segment.offset <= offset < segment.offset + segment.file_bytes
            ):
                return offset - segment.offset + segment.address
        return None

    @property
    def first_address(self) -> int:
        """The address of the first loaded page: 0 in shared libraries, not in old executables."""
        loaded = [segment.address for segment in self.segments if segment.kind == _PT_LOAD]
        return min(loaded, default=0) & ~0xFFF

    @cached_property
    def _tags(self) -> list[tuple[int, int]]:
        """The dynamic section: tags with their values, some of them more than once."""
        found: list[tuple[int, int]] = []
        for segment in self.segments:
            if segment.kind != _PT_DYNAMIC:
                continue
            last = min(segment.file_bytes // 16, _MOST_TAGS)
            for at in range(segment.offset, segment.offset + 16 * last, 16):
                tag, value = self._unpack("<QQ", at)
                if tag == 0:
                    break
                found.append((tag, value))
        return found

    @cached_property
    def _dynamic(self) -> dict[int, int]:
        return dict(reversed(self._tags))  # the first of a tag counts

    def _dynamic_offset(self, tag: int) -> int | None:
        address = self._dynamic.get(tag)
        return None if address is None else self.offset_of(address)

    @property
    def soname(self) -> str | None:
        strings, name = self._dynamic_offset(_DT_STRTAB), self._dynamic.get(_DT_SONAME)
        return None if strings is None or name is None else self._text(strings + name)

    @property
    def needed(self) -> tuple[str, ...]:
        """The libraries that the loader has to find first."""
        return tuple(self._texts(_DT_NEEDED))

    def _texts(self, wanted: int) -> list[str]:
        strings = self._dynamic_offset(_DT_STRTAB)
        if strings is None:
            return []
        return [self._text(strings + value) for tag, value in self._tags if tag == wanted]

    @property
    def build_id(self) -> str | None:
        for segment in self.segments:
            if segment.kind != _PT_NOTE:
                continue
            at, end = segment.offset, segment.offset + segment.file_bytes
            while at + 12 <= end:
                name_bytes, value_bytes, kind = self._unpack("<III", at)
                name_at, at = at + 12, at + 12 + (name_bytes + 3) // 4 * 4
                if kind == 3 and self._map[name_at : name_at + 4] == b"GNU\0":
                    return self._map[at : at + value_bytes].hex()
                at += (value_bytes + 3) // 4 * 4
        return None

    def exports(self, names: Iterable[tuple[bytes, int]]) -> set[bytes]:
        """Which of these (name, gnu_hash) are defined here.

        The hash table answers "no" from a bloom filter: a few bytes per name, whatever the size.
        """
        table_at = self._dynamic_offset(_DT_GNU_HASH)
        symbols_at = self._dynamic_offset(_DT_SYMTAB)
        strings_at = self._dynamic_offset(_DT_STRTAB)
        if table_at is None or symbols_at is None or strings_at is None:
            return set()
        buckets, first_symbol, bloom_words, shift = self._unpack("<IIII", table_at)
        if not buckets or not bloom_words:
            return set()
        bloom_at = table_at + 16
        buckets_at = bloom_at + 8 * bloom_words
        chains_at = buckets_at + 4 * buckets
        found: set[bytes] = set()
        for name, value in names:
            (word,) = self._unpack("<Q", bloom_at + 8 * (value // 64 % bloom_words))
            if not (word >> (value % 64) & 1 and word >> ((value >> shift) % 64) & 1):
                continue
            (index,) = self._unpack("<I", buckets_at + 4 * (value % buckets))
            while index >= first_symbol:
                (chained,) = self._unpack("<I", chains_at + 4 * (index - first_symbol))
                if chained | 1 == value | 1:
                    (name_at,) = self._unpack("<I", symbols_at + _SYMBOL_BYTES * index)
                    at = strings_at + name_at
                    if self._map[at : at + len(name) + 1] == name + b"\0":
                        found.add(name)
                        break
                if chained & 1:
                    break
                index += 1
        return found

    def contains(self, text: bytes) -> bool:
        """Is this text anywhere in the file?"""
        return self._map.find(text) >= 0

    def functions_at(self, addresses: Iterable[int]) -> dict[int, Symbol]:
        """The functions that these addresses lie in; an address in none is left out.

        The table of exported names is asked first: the loader has it in memory. The full table
        and the compressed one that distributions add are read only for what is then missing.
        """
        missing = set(addresses)
        found: dict[int, Symbol] = {}
        for kind in (_SHT_DYNSYM, _SHT_SYMTAB):
            for section in self.sections:
                if missing and section.kind == kind:
                    found.update(self._search_table(section, missing))
                    missing -= found.keys()
        if missing:
            mini = self._mini_debug_info()
            if mini is not None:
                found.update(mini.functions_at(missing))
        return found

    def _search_table(self, table: Section, addresses: set[int]) -> dict[int, Symbol]:
        if table.link >= len(self.sections):
            return {}
        strings_at = self.sections[table.link].offset
        count = table.size // _SYMBOL_BYTES
        found: dict[int, Symbol] = {}
        content = memoryview(self._map)[table.offset : table.offset + count * _SYMBOL_BYTES]
        try:
            if len(content) < count * _SYMBOL_BYTES:
                raise NotElf("cut short")
            with content.cast("Q") as words, words[1::_WORDS_PER_SYMBOL] as column:
                starts = column.tolist()
            for bits in _SIFT_BITS:
                missing = addresses - found.keys()
                if not missing:
                    break
                wanted = {address >> bits for address in missing}
                wanted |= {before - 1 for before in wanted}
                entries = _functions(
                    content, [index for index, at in enumerate(starts) if at >> bits in wanted]
                )
                for address, entry in _covering(entries, missing).items():
                    name = self._text(strings_at + entry[0])
                    if name:
                        found[address] = Symbol(name, entry[4], entry[5])
        finally:
            content.release()
        return found

    def _mini_debug_info(self) -> ElfFile | None:
        """Fedora's and Red Hat's .gnu_debugdata: the local symbols as a compressed ELF file."""
        for section in self.sections:
            if section.name != ".gnu_debugdata":
                continue
            raw = self._map[section.offset : section.offset + section.size]
            try:
                unpacked = lzma.LZMADecompressor().decompress(raw, _MOST_MINI_DEBUG_BYTES)
                return ElfFile.from_bytes(unpacked)
            except (lzma.LZMAError, NotElf):
                return None
        return None


def _functions(table: memoryview, indices: list[int]) -> list[tuple[int, ...]]:
    """These entries of a symbol table, functions only, by address, the best name last."""
    entries = (_SYMBOL.unpack_from(table, index * _SYMBOL_BYTES) for index in indices)
    return sorted(
        (entry for entry in entries if _is_function(entry)),
        key=lambda entry: (entry[4], entry[5] != 0, -_rank(entry)),
    )


def _is_function(entry: tuple[int, ...]) -> bool:
    kind, section = entry[1] & 0xF, entry[3]
    return section != 0 and kind in (_STT_FUNC, _STT_IFUNC, _STT_NOTYPE) and entry[4] != 0


def _rank(entry: tuple[int, ...]) -> int:
    """Of several names for one address: functions before labels, global before weak and local."""
    is_label = entry[1] & 0xF == _STT_NOTYPE
    binding = entry[1] >> 4
    return is_label * 4 + {1: 0, 2: 1}.get(binding, 2)


def _covering(entries: list[tuple[int, ...]], addresses: set[int]) -> dict[int, tuple[int, ...]]:
    """For each address the entry that covers it; one without a size covers up to the next."""
    starts = [entry[4] for entry in entries]
    found: dict[int, tuple[int, ...]] = {}
    for address in addresses:
        last = bisect_right(starts, address) - 1
        for index in range(last, max(last - _MOST_NESTED, -1), -1):
            entry = entries[index]
            if entry[5] and address < entry[4] + entry[5]:
                found[address] = entry
                break
            if index == last and entry[5] == 0 and entry[1] & 0xF == _STT_FUNC:
                found[address] = entry
    return found
