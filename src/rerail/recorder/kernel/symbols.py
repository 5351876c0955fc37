"""Names for the frames of a crash: addresses in, functions out.

In: a Crash as the store reads it, with addresses and the libraries that were mapped; a caller's
frame points into its call, not behind it. Out: the same with each frame's library, offset and
function filled in. Promises: ends within the given
time, the crashed thread first; what a stripped library does not tell stays library + offset;
Python frames are kept as they are; nothing is loaded or run but the C++ demangler of libstdc++.
"""

from __future__ import annotations

import ctypes
import re
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from rerail.platform.elf import ElfFile, NotElf, Symbol
from rerail.records import Crash, MappedLibrary, NativeFrame, ThreadStack

LONGEST_NAME = 400
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")


def symbolise(crash: Crash, seconds: float = 0.5) -> Crash:
    """Name the functions of every native frame that can be named in this time."""
    deadline = time.monotonic() + seconds
    libraries = sorted(
        (library for library in crash.libraries if library.base is not None),
        key=lambda library: library.base or 0,
    )
    threads = [_place(thread, libraries) for thread in crash.threads]
    names: dict[tuple[str, int], str] = {}
    build_ids: dict[str, str] = {}
    # The crashed thread comes first in the record, and dicts keep order: its libraries first.
    by_library: dict[str, set[int]] = {}
    for thread in threads:
        for frame in thread.native:
            if frame.library is not None and frame.offset is not None and frame.function is None:
                by_library.setdefault(frame.library, set()).add(frame.offset)
    for path, wanted_here in by_library.items():
        if time.monotonic() >= deadline:
            break
        try:
            with ElfFile(path) as elf:
                build_id = elf.build_id
                if build_id is not None:
                    build_ids[path] = build_id
                for offset, symbol in _look_up(elf, wanted_here).items():
                    names[path, offset] = demangle(symbol.name)
        except NotElf:
            continue
    return replace(
        crash,
        threads=[_name(thread, names) for thread in threads],
        libraries=[
            replace(library, build_id=build_ids.get(library.path, library.build_id))
            for library in crash.libraries
        ],
    )


def _place(thread: ThreadStack, libraries: list[MappedLibrary]) -> ThreadStack:
    """Give every frame its library and offset, where the agent's record has only the address."""
    bases = [library.base or 0 for library in libraries]
    frames = []
    for frame in thread.native:
        if frame.library is None and libraries:
            index = bisect_right(bases, frame.address) - 1
            if index >= 0:
                frame = replace(frame, library=libraries[index].path)
        if frame.library is not None and frame.offset is None:
            frame = _with_offset(frame, libraries)
        frames.append(frame)
    return replace(thread, native=frames)


def _with_offset(frame: NativeFrame, libraries: list[MappedLibrary]) -> NativeFrame:
    for library in libraries:
        if library.path == frame.library and library.base is not None:
            try:
                with ElfFile(library.path) as elf:
                    address = frame.address - library.base + elf.first_address
                    return replace(frame, offset=elf.offset_of(address))
            except NotElf:
                return replace(frame, offset=frame.address - library.base)
    return frame


def _look_up(elf: ElfFile, offsets: set[int]) -> dict[int, Symbol]:
    """Symbols by offset in the file."""
    addresses = {offset: elf.address_of(offset) for offset in offsets}
    found = elf.functions_at(address for address in addresses.values() if address is not None)
    return {
        offset: found[address]
        for offset, address in addresses.items()
        if address is not None and address in found
    }


def _name(thread: ThreadStack, names: dict[tuple[str, int], str]) -> ThreadStack:
    frames = []
    for frame in thread.native:
        if frame.function is None and frame.library is not None and frame.offset is not None:
            frame = replace(frame, function=names.get((frame.library, frame.offset)))
        frames.append(frame)
    return replace(thread, native=frames)


class AddressNamer:
    """Names addresses of a living process by its memory map."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._ranges: list[tuple[int, int, int, str]] = []
        try:
            text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
        except OSError:
            return
        for line in text.splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                begin, _, end = fields[0].partition("-")
                self._ranges.append((int(begin, 16), int(end, 16), int(fields[2], 16), fields[5]))

    def name(self, addresses: Iterable[int]) -> dict[int, NativeFrame]:
        """Frames with library and offset, and the function where the library tells it.

        These are return addresses, the instruction after a call. After a call that never returns,
        such as abort(), that may already be the next function: looked up one byte earlier.
        """
        frames: dict[int, NativeFrame] = {}
        by_library: dict[str, set[int]] = {}
        for address in addresses:
            for begin, end, offset, path in self._ranges:
                if begin <= address < end:
                    place = address - begin + offset
                    frames[address] = NativeFrame(address, path, place)
                    by_library.setdefault(path, set()).add(place - 1)
                    break
        for path, wanted in by_library.items():
            if time.monotonic() >= self._deadline:
                break
            try:
                with ElfFile(path) as elf:
                    names = {
                        before + 1: demangle(symbol.name)
                        for before, symbol in _look_up(elf, wanted).items()
                    }
            except NotElf:
                continue
            for address, frame in frames.items():
                if frame.library == path and frame.offset in names:
                    frames[address] = replace(frame, function=names[frame.offset])
        return frames


@lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """A C++ or Rust name as people write it; any other name as it is."""
    plain = name.partition("@")[0]
    if plain.startswith(("_Z", "__Z")):
        demangler = _demangler()
        if demangler is not None:
            plain = demangler(plain.removeprefix("_") if plain.startswith("__Z") else plain)
        plain = _RUST_HASH.sub("", plain)
    return plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1] + "…"


@lru_cache(maxsize=1)
def _demangler() -> Callable[[str], str] | None:
    """__cxa_demangle of the C++ runtime; None where the machine has none."""
    name = "libc++.1.dylib" if sys.platform == "darwin" else "libstdc++.so.6"
    try:
        function = ctypes.CDLL(name).__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free.argtypes = [ctypes.c_void_p]
    free.restype = None

    def call(mangled: str) -> str:
        status = ctypes.c_int()
        pointer = function(mangled.encode(), None, None, ctypes.byref(status))
        if not pointer:
            return mangled
        try:
            return ctypes.string_at(pointer).decode(errors="replace")
        finally:
            free(pointer)

    return call
