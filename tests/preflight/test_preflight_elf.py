"""Reading what libraries demand: the linker's own tables, torn files, and Mach-O by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preflight_environments import Environment

from rerail.platform import mach_o
from rerail.platform.elf_dynamic import LinkedElf, Links, NotElf, read_links


def test_needs_search_path_and_undefined_names(environment: Environment, tmp_path: Path) -> None:
    first = environment.compile(
        tmp_path / "libfirst.so", "void first(void) {}\n", "-Wl,-soname,libfirst.so.1"
    )
    source = "void first(void); void absent(void); void f(void) { first(); absent(); }\n"
    path = environment.compile(
        tmp_path / "second.so", source, str(first), "-Wl,-rpath,$ORIGIN/a:/b", "-Wl,-soname,s.so"
    )
    links = read_links(str(path))
    assert links.soname == "s.so"
    assert "libfirst.so.1" in links.needed
    assert links.search == ("$ORIGIN/a", "/b")
    with LinkedElf(path) as elf:
        assert {b"first", b"absent"} <= set(elf.undefined())
    assert any(v.startswith("GLIBC_") for v in links.versions.get("libc.so.6", ("GLIBC_",)))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_library_raises_not_elf_and_nothing_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(next(Path(psutil.__file__).parent.glob("*.so")).read_bytes()[: 64 << 10])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + 8] = data.draw(st.binary(min_size=8, max_size=8))
    path = tmp_path_factory.mktemp("torn") / "torn.so"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        assert isinstance(read_links(str(path)), Links)
    except NotElf:
        pass


def dylib(soname: str, needed: list[str], search: list[str]) -> bytes:
    """A Mach-O header with these load commands and nothing else."""
    commands = b""
    count = 0
    for kind, text, text_at in (
        [(0x0D, soname, 24)]
        + [(0x0C, n, 24) for n in needed]
        + [(0x8000001C, s, 12) for s in search]
    ):
        raw = text.encode() + b"\0"
        size = (text_at + len(raw) + 7) // 8 * 8
        head = struct.pack("<III", kind, size, text_at)
        commands += (head + b"\0" * (text_at - 12) + raw).ljust(size, b"\0")
        count += 1
    return struct.pack("<IiiIIIII", 0xFEEDFACF, 0x0100000C, 0, 6, count, len(commands), 0, 0) + (
        commands
    )


names = st.text("abcdefghijklmnop./@_-0123456789", min_size=1, max_size=40)


@given(soname=names, needed=st.lists(names, max_size=5), search=st.lists(names, max_size=3))
def test_mach_o_is_read_as_it_was_written(
    soname: str, needed: list[str], search: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("dylib") / "x.dylib"
    thin = dylib(soname, needed, search)
    fat = struct.pack(">IIiiIII", 0xCAFEBABE, 1, 0x0100000C, 0, 4096, len(thin), 12)
    for content in (thin, fat.ljust(4096, b"\0") + thin):
        path.write_bytes(content)
        assert mach_o.is_mach_o(str(path))
        links = mach_o.read_links(str(path))
        assert (list(links.needed), list(links.search)) == (needed, search)
        assert links.soname == soname.rpartition("/")[2]


@given(content=st.binary(max_size=200), cut=st.integers(0, 120))
def test_a_damaged_mach_o_raises_not_elf_and_nothing_else(
    content: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("torn") / "x.dylib"
    for raw in (b"\xcf\xfa\xed\xfe" + content, dylib("a", ["b"], ["c"])[:cut]):
        path.write_bytes(raw)
        try:
            assert isinstance(mach_o.read_links(str(path)), Links)
        except NotElf:
            pass
