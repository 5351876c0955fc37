"""What a native library asks of the loader: which others, where to look, which versions.

In: a path. Out: `Links`. Built on `platform.elf`, it reads the dynamic section
alone: a few pages of a file of any size. A file that is no 64-bit little-endian ELF raises NotElf.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rerail.platform.elf import ElfFile, NotElf

__all__ = ["LinkedElf", "Links", "NotElf", "read_links"]

_PT_GNU_PROPERTY = 0x6474E553
_DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 5, 15, 29
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_SHT_DYNSYM = 11
_SYMBOL_BYTES = 24
_X86_ISA_NEEDED = 0xC0008002
_MOST_SYMBOLS = 200_000


@dataclass(frozen=True)
class Links:
    soname: str | None
    needed: tuple[str, ...]
    search: tuple[str, ...]  # RUNPATH, else RPATH; $ORIGIN not yet replaced
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by library
    isa_level: int = 1  # x86-64-v1 to v4, as the linker noted it


class LinkedElf(ElfFile):
    """An ELF file whose demands are read."""

    def __enter__(self) -> LinkedElf:
        return self

    def links(self) -> Links:
        strings = self._dynamic_offset(_DT_STRTAB)
        if strings is None:
            return Links(None, (), ())
        search = self._texts(_DT_RUNPATH) or self._texts(_DT_RPATH)
        return Links(
            self.soname,
            self.needed,
            tuple(part for text in search for part in text.split(":") if part),
            self._version_needs(strings),
            self._isa_level(),
        )

    def _version_needs(self, strings: int) -> dict[str, tuple[str, ...]]:
        """GLIBC_2.28, GLIBCXX_3.4.29, …: by the library that must offer them."""
        at, count = self._dynamic_offset(_DT_VERNEED), self._dynamic.get(_DT_VERNEEDNUM, 0)
        found: dict[str, tuple[str, ...]] = {}
        for _ in range(min(count, 256) if at is not None else 0):
            assert at is not None
            _version, entries, file, auxiliary, following = self._unpack("<HHIII", at)
            names = []
            inner = at + auxiliary
            for _ in range(entries):
                _hash, flags, _other, name, step = self._unpack("<IHHII", inner)
                if not flags & 2:  # weak: the loader only warns
                    names.append(self._text(strings + name))
                if not step:
                    break
                inner += step
            found[self._text(strings + file)] = tuple(names)
            if not following:
                break
            at += following
        return found

    def _isa_level(self) -> int:
        """The x86-64 level that the linker was told every user of this file has."""
        for segment in self.segments:
            if segment.kind != _PT_GNU_PROPERTY:
                continue
            at, end = segment.offset + 16, segment.offset + segment.file_bytes
            while at + 8 <= end:
                kind, size = self._unpack("<II", at)
                if kind == _X86_ISA_NEEDED and size >= 4:
                    (bits,) = self._unpack("<I", at + 8)
                    return max(1, int(bits).bit_length())
                at += 8 + (size + 7) // 8 * 8
        return 1

    def undefined(self) -> list[bytes]:
        """Names that this file uses and does not define; empty where it has no section table."""
        strings = self._dynamic_offset(_DT_STRTAB)
        table = next((s for s in self.sections if s.kind == _SHT_DYNSYM), None)
        if strings is None or table is None:
            return []
        found = []
        for index in range(1, min(table.size // _SYMBOL_BYTES, _MOST_SYMBOLS)):
            name, info, _other, section = self._unpack("<IBBH", table.offset + index * 24)
            if section == 0 and info >> 4 == 1 and name:  # global, not weak
                end = self._map.find(b"\0", strings + name)
                found.append(bytes(self._map[strings + name : end]))
        return found


def read_links(path: str) -> Links:
    try:
        with LinkedElf(path) as elf:
            return elf.links()
    except OverflowError as error:  # an offset that no file can have
        raise NotElf(f"{path}: {error}") from error
