"""Names of functions and libraries: real ELF files, compiled here or shipped by torch and faiss."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.platform.elf import ElfFile, NotElf, gnu_hash
from rerail.recorder.kernel import symbols
from rerail.recorder.vitals import libraries
from rerail.records import Crash, MappedLibrary, NativeFrame, PythonFrame, ThreadStack

# A busy machine makes examples slow, which says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SOURCE = Path(__file__).parent.parent / "programs" / "senses_faults.c"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")


def compile_library(folder: Path, *flags: str, name: str = "libfaults.so") -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = folder / name
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wl,--build-id", *flags, "-o", path, SOURCE],
        check=True,
    )
    return path


def address_of(path: Path, name: str) -> int:
    """By nm, so that the test does not ask the code under test."""
    text = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    return next(int(line.split()[0], 16) for line in text.splitlines() if line.endswith(" " + name))


def crash_at(path: Path, *addresses: int, base: int = 0x7F0000000000) -> Crash:
    frames = [NativeFrame(base + address) for address in addresses]
    stack = ThreadStack(1, "python", frames, [PythonFrame("train.py", 3, "f")], is_crashed=True)
    return Crash(
        pid=1,
        start_ticks=1,
        thread_id=1,
        thread_name="python",
        is_main_thread=True,
        signal="SIGSEGV",
        code="SEGV_MAPERR",
        address=0,
        sender_pid=None,
        t_seconds=1.0,
        threads=[stack],
        libraries=[MappedLibrary(str(path), base=base)],
    )


def test_exported_and_local_functions_are_named(tmp_path: Path) -> None:
    path = compile_library(tmp_path)
    local = address_of(path, "writes_through_null") + 2
    exported = address_of(path, "senses_exported_fault") + 5
    crash = symbols.symbolise(crash_at(path, local, exported))
    assert [frame.function for frame in crash.threads[0].native] == [
        "writes_through_null",
        "senses_exported_fault",
    ]
    assert all(frame.library == str(path) for frame in crash.threads[0].native)
    assert crash.threads[0].python == [PythonFrame("train.py", 3, "f")]
    assert crash.libraries[0].build_id is not None


def test_a_stripped_library_still_gives_library_and_offset(tmp_path: Path) -> None:
    path = compile_library(tmp_path)
    local = address_of(path, "writes_through_null") + 2
    exported = address_of(path, "senses_exported_fault") + 5
    subprocess.run(["strip", path], check=True)
    frames = symbols.symbolise(crash_at(path, local, exported)).threads[0].native
    assert frames[0].function is None
    assert frames[0].library == str(path)
    assert frames[0].offset == local  # file offset and address agree in the text of a small library
    assert frames[1].function == "senses_exported_fault"  # exports survive stripping


def test_a_library_that_is_gone_keeps_its_frames(tmp_path: Path) -> None:
    path = tmp_path / "libgone.so"
    frame = symbols.symbolise(crash_at(path, 0x1234)).threads[0].native[0]
    assert frame.library == str(path)
    assert frame.offset == 0x1234
    assert frame.function is None


def test_time_is_kept(tmp_path: Path) -> None:
    path = compile_library(tmp_path)
    crash = symbols.symbolise(crash_at(path, address_of(path, "writes_through_null")), seconds=0.0)
    assert crash.threads[0].native[0].library == str(path)


def test_cxx_names_are_demangled() -> None:
    if symbols.demangle("_Z1fi") == "_Z1fi":
        pytest.skip("no libstdc++ on this machine")
    assert symbols.demangle("_ZN2at6native6matmulERKNS_6TensorES3_") == (
        "at::native::matmul(at::Tensor const&, at::Tensor const&)"
    )
    assert symbols.demangle("_ZN4core3fmt5write17h0123456789abcdefE") == "core::fmt::write"
    assert symbols.demangle("memcpy@@GLIBC_2.14") == "memcpy"
    assert symbols.demangle("_Znonsense") == "_Znonsense"


def find_library(package: str, pattern: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    found = sorted(Path(spec.origin).parent.parent.glob(pattern))
    if not found:
        pytest.skip(f"{package} has no {pattern}")
    return found[0]


@pytest.mark.torch
def test_functions_of_torch_are_named_as_nm_names_them() -> None:
    path = find_library("torch", "torch/lib/libtorch_cpu.so")
    # 24-byte records at random places of the table, read here by hand: name, address, size.
    with ElfFile(path) as elf:
        table = next(s for s in elf.sections if s.name in (".symtab", ".dynsym"))
        strings = elf.sections[table.link]
        chance = random.Random(7)
        wanted: dict[int, tuple[str, int]] = {}
        while len(wanted) < 25:
            at = table.offset + 24 * chance.randrange(table.size // 24)
            name_at, info, _, section, address, size = elf._unpack("<IBBHQQ", at)
            if info & 15 == 2 and section and size > 16:
                wanted[address + size // 2] = (elf._text(strings.offset + name_at), address)
        found = elf.functions_at(wanted)
    assert len(found) == len(wanted)
    for address, (_, start) in wanted.items():
        assert found[address].address == start


@pytest.mark.torch
def test_a_torch_stack_is_named_in_time() -> None:
    path = find_library("torch", "torch/lib/libtorch_cpu.so")
    with ElfFile(path) as elf:
        text = next(s for s in elf.sections if s.name == ".text")
        offsets = [text.offset + 4096 * index for index in range(20)]
    frames = [NativeFrame(0x7F0000000000 + o, str(path), o) for o in offsets]
    crash = crash_at(path)
    crash.threads[0].native.extend(frames)
    before = time.process_time()
    named = symbols.symbolise(crash, seconds=30.0)
    spent = time.process_time() - before
    assert sum(frame.function is not None for frame in named.threads[0].native) >= 15
    assert spent < 5.0  # a runaway, not a benchmark: pyelftools needs three times that


def test_not_elf_is_said_so(tmp_path: Path) -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(20)):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(NotElf), ElfFile(path) as elf:
            elf.functions_at([1])


@unhurried
@given(st.binary(max_size=400))
def test_any_bytes_behind_the_magic_are_survived(tail: bytes) -> None:
    try:
        elf = ElfFile.from_bytes(b"\x7fELF\x02\x01" + tail)
        elf.exports([(b"f", gnu_hash(b"f"))])
        elf.functions_at([0, 4096])
        _ = elf.soname, elf.build_id
    except NotElf:
        pass


OPENMP_SOURCES = {
    "libgomp": "void GOMP_parallel(void) {}",
    "libomp": 'void GOMP_parallel(void) {} const char v[] = "LLVM OMP version: 5.0.20140926";'
    "void __kmpc_fork_call(void) {}",
    "libiomp5": 'void GOMP_parallel(void) {} const char v[] = "Intel(R) OMP version: 5.0.2026";'
    "void __kmpc_fork_call(void) {}",
    "openblas": "void openblas_get_config64_(void) {}",
    "mkl": "void mkl_serv_get_version(void) {}",
    "cudart": "void cudaMalloc(void) {}",
    "hip": "void hipMalloc(void) {}",
}


@pytest.mark.parametrize("flavour", sorted(OPENMP_SOURCES))
def test_a_runtime_is_told_under_any_file_name(tmp_path: Path, flavour: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path / "libharmless-3fa9.so.2"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname,libx.so.1", "-o", path],
        input=OPENMP_SOURCES[flavour].encode(),
        check=True,
    )
    kind, found, soname = libraries.describe(str(path))
    assert (found, soname) == (flavour, "libx.so.1")
    assert kind == (
        "openmp" if "omp" in flavour else "cuda" if flavour in ("cudart", "hip") else "blas"
    )


def test_a_library_that_only_uses_openmp_is_none(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path / "libgomp_user.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path],
        input=b"void GOMP_parallel(void); void f(void) { GOMP_parallel(); }",
        check=True,
    )
    assert libraries.describe(str(path))[:2] == (None, None)


def test_a_file_that_changes_is_described_anew(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path / "lib.so"
    for source, flavour in (
        (b"void GOMP_parallel(void) {}", "libgomp"),
        (b"void f(void) {}", None),
    ):
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, check=True
        )
        os.utime(path, ns=(0, len(source)))
        assert libraries.describe(str(path))[1] == flavour


@pytest.mark.parametrize(
    ("path", "kind", "flavour"),
    [
        ("/elsewhere/libgomp-a34b3233.so.1", "openmp", "libgomp"),
        ("/elsewhere/libomp.dylib", "openmp", "libomp"),
        ("/elsewhere/libiomp5.dylib", "openmp", "libiomp5"),
        ("/System/Library/Frameworks/Accelerate.framework/Accelerate", "blas", "accelerate"),
        ("/elsewhere/libcrypto.so.3", None, None),
    ],
)
def test_a_path_from_elsewhere_is_told_by_its_name(
    path: str, kind: str | None, flavour: str | None
) -> None:
    assert libraries.describe(path) == (kind, flavour, None)


def test_a_damaged_path_is_described_by_its_name() -> None:
    assert libraries.describe("/usr/lib/libgomp\0.so") == libraries.describe("/gone/libgomp.x")


def test_the_inventory_of_a_process_holds_what_it_loaded(tmp_path: Path) -> None:
    path = compile_library(tmp_path)
    data = tmp_path / "weights.so"  # the name of a library, but only read
    data.write_bytes(bytes(8192))
    program = (
        "import ctypes, mmap, sys\n"
        f"lib = ctypes.CDLL({str(path)!r})\n"
        f"file = open({str(data)!r}, 'rb')\n"
        "held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "print(ctypes.cast(lib.senses_exported_fault, ctypes.c_void_p).value, flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = int(process.stdout.readline())
        found = {library.path: library for library in libraries.inventory(process.pid)}
    finally:
        process.communicate("\n")
    assert str(path) in found
    assert str(data) not in found
    assert found[str(path)].base == address - address_of(path, "senses_exported_fault")
    assert any(library.kind == "python" for library in found.values())
    assert libraries.inventory(process.pid) == []


@pytest.mark.thorough
@pytest.mark.torch
def test_torch_and_faiss_bring_two_copies_of_libgomp() -> None:
    find_library("faiss", "faiss_cpu.libs/libgomp*")
    program = "import torch, faiss; print('ready', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        found = libraries.inventory(process.pid)
    finally:
        process.communicate("\n")
    openmp = [library for library in found if library.kind == "openmp"]
    assert [library.flavour for library in openmp] == ["libgomp", "libgomp"]
    assert len({library.path for library in openmp}) == 2
    assert {"mkl", "openblas"} <= {lib.flavour for lib in found if lib.kind == "blas"}


def test_gnu_hash_is_the_loaders() -> None:
    assert gnu_hash(b"") == 5381
    assert gnu_hash(b"printf") == 0x156B2BB8


@unhurried
@given(st.lists(st.text(max_size=60), max_size=20))
def test_any_memory_map_is_survived(lines: list[str]) -> None:
    libraries.parse_maps(lines)
