"""What must hold of a wheel of ours before anybody may have it.

In: a wheel, or the sdist. Out: lines that say what was found. Promises: whatever does not hold ends
the program with a sentence. ELF and Mach-O are read by pyelftools, which auditwheel brings along,
and by macholib.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

LIBRARY = "rerail/agent/native.abi3.so"
# A wheel has 1.6 MB, two thirds of them Python sources. Half as much again means that something
# is in it that does not belong there: recordings, a toolchain, a library with debug symbols.
MOST_BYTES = 2_400_000
# Without these nothing is recorded or explained, and no import would notice until then.
NEEDED = (
    LIBRARY,
    "rerail/agent/stub/sitecustomize.py",
    "rerail/catalogue/compiled.json",
    "rerail/catalogue/wordings/compiled.json",
    "rerail/py.typed",
)
LAUNCHERS = {"scripts/rerail", "scripts/rerail-python"}
OWN = "rerail_"
GLIBC = (2, 17)
MAY_NEED = {
    "manylinux": {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-"},
    "musllinux": {"libc.so"},
    "macosx": {"/usr/lib/libSystem.B.dylib"},
}
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
LIBSYSTEM_ORDINAL = 1
MADE_BY_THE_LINKER = {"__dso_handle", "_mh_dylib_header"}  # every dylib has its own
N_TYPE, N_UNDEFINED, N_EXTERNAL, N_PRIVATE = 0x0E, 0, 0x01, 0x10


def check(path: Path) -> list[str]:
    if path.suffix != ".whl":
        return []
    size = path.stat().st_size
    too_large = f"{path.name} has {size:,} bytes, and the limit is {MOST_BYTES:,} (MOST_BYTES)"
    _demand(size <= MOST_BYTES, f"{too_large}; unzip -lv {path.name} shows what is large")
    platform = path.stem.rpartition("-")[2]
    _demand(path.stem.endswith(f"-py3-none-{platform}"), f"{path.name} is not for every CPython")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        library = wheel.read(LIBRARY) if LIBRARY in names else b""
    _check_contents(names)
    family = platform.partition("_")[0]
    if family == "macosx":
        return [*_look_at_mach_o(library, platform), _delocate(path)]
    _demand(family in MAY_NEED, f"{platform} is no platform of ours")
    return [*_look_at_elf(library, family, platform), _auditwheel(path, platform)]


def check_with_twine(paths: Iterable[Path]) -> None:
    _run("-m", "twine", "check", "--strict", *map(str, paths))


def _check_contents(names: set[str]) -> None:
    for name in NEEDED:
        _demand(name in names, f"the wheel lacks {name}")
    top = {name.partition("/")[0] for name in names}
    strange = {name for name in top if name != "rerail" and not name.endswith(".dist-info")}
    scripts = {name for name in names if ".data/" in name}
    strange = {name for name in strange if not name.endswith(".data")}
    _demand(not strange, f"the wheel would also install {strange}")
    launchers = {name.partition(".data/")[2] for name in scripts}
    _demand(launchers == LAUNCHERS, f"the wheel has the scripts {launchers}, not {LAUNCHERS}")
    binaries = {name for name in names if name.endswith((".so", ".dylib", ".o", ".pyc"))}
    _demand(binaries == {LIBRARY}, f"the wheel has binaries besides the library: {binaries}")


def _look_at_elf(library: bytes, family: str, platform: str) -> list[str]:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(library))
    machine = next(m for m in MACHINES if m in platform)
    _demand(elf["e_machine"] == MACHINES[machine], f"a library for {elf['e_machine']}")
    needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
    other = {name for name in needed if not name.startswith(tuple(MAY_NEED[family]))}
    _demand(not other, f"the library needs {other}")
    symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
    shown = {s.name for s in symbols if s.name and s["st_shndx"] != "SHN_UNDEF"}
    _demand_own(shown - {"pthread_create"})
    newest = _newest_glibc(elf)
    _demand(newest is None or newest <= GLIBC, f"the library needs glibc {newest}")
    _demand((newest is None) == (family == "musllinux"), f"glibc {newest} in a {family} wheel")
    wants = f"glibc {newest[0]}.{newest[1]}" if newest else "musl"
    return [f"{len(library):,} bytes of C library, {len(shown)} functions shown, needs {wants}"]


def _newest_glibc(elf: object) -> tuple[int, ...] | None:
    versions = elf.get_section_by_name(".gnu.version_r")  # type: ignore[attr-defined]
    names = [aux.name for _, auxes in versions.iter_versions() for aux in auxes] if versions else []
    found = [n.removeprefix("GLIBC_").split(".") for n in names if n.startswith("GLIBC_")]
    return max((tuple(map(int, each)) for each in found), default=None)


def _look_at_mach_o(library: bytes, platform: str) -> list[str]:
    from macholib import mach_o
    from macholib.MachO import MachO
    from macholib.SymbolTable import SymbolTable

    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(library)
        file.flush()
        binary = MachO(file.name)
        table = SymbolTable(binary)
    (header,) = binary.headers
    cpu = mach_o.CPU_TYPE_NAMES[header.header.cputype]
    _demand(cpu == {"arm64": "ARM64", "x86_64": "x86_64"}[platform.split("_", 3)[3]], cpu)
    needed = [name for _, kind, name in header.walkRelocatables() if kind == "load_dylib"]
    _demand(set(needed) == MAY_NEED["macosx"], f"the library needs {needed}")
    commands = {load.cmd: command for load, command, _ in header.commands}
    build = commands.get(mach_o.LC_BUILD_VERSION)  # before macOS 10.14 there was another command
    number = build.minos if build else commands[mach_o.LC_VERSION_MIN_MACOSX].version
    oldest = f"{number >> 16}.{number >> 8 & 0xFF}"
    _demand(platform.split("_")[1:3] == oldest.split("."), f"built for macOS {oldest}")
    if cpu == "ARM64":  # macOS refuses unsigned code there
        _demand(mach_o.LC_CODE_SIGNATURE in commands, "the library is not signed")
    outside = [(n, name) for n, name in table.nlists if n.n_type & N_EXTERNAL]
    undefined = {name: n for n, name in outside if n.n_type & N_TYPE == N_UNDEFINED}
    elsewhere = {name for name, n in undefined.items() if n.n_desc >> 8 != LIBSYSTEM_ORDINAL}
    _demand(not elsewhere, f"not found in libSystem: {elsewhere}")
    shown = {
        name.decode().removeprefix("_")
        for n, name in outside
        if n.n_type & N_TYPE != N_UNDEFINED and not n.n_type & N_PRIVATE
    }
    _demand_own(shown - MADE_BY_THE_LINKER)
    return [
        f"{len(library):,} bytes of C library, {len(shown)} functions shown, needs macOS {oldest}"
        f" and {len(undefined)} functions of libSystem"
    ]


def _demand_own(shown: set[str]) -> None:
    strange = {name for name in shown if not name.startswith(OWN)}
    _demand(bool(shown) and not strange, f"the library shows {strange or 'nothing'}")


def _auditwheel(path: Path, platform: str) -> str:
    """Libraries of this machine would mislead it: the libc.so of a compiler is a text."""
    with tempfile.TemporaryDirectory() as nothing:
        said = _run("-m", "auditwheel", "show", "--ldpaths", nothing, str(path))
    said = " ".join(said.split())
    if platform.startswith("musllinux"):
        # Alpine's name for musl is libc.musl-ARCH.so.1; under that name alone auditwheel knows it.
        # musl's loader takes libc.so for itself as well.
        _demand('required by the wheel: { "libc.so": null }' in said, said)
        return "auditwheel: needs libc.so, which is musl itself, and nothing else"
    tag = platform.partition(".")[0]
    _demand(f'consistent with the following platform tag: "{tag}"' in said, said)
    return f"auditwheel: {tag}"


def _delocate(path: Path) -> str:
    if shutil.which("otool") is None:  # Apple's, with which delocate reads what macholib read above
        return "delocate: not asked, since there is no otool here"
    said = _run("-m", "delocate.cmd.delocate_listdeps", "--all", str(path)).split()
    _demand(said == [*MAY_NEED["macosx"]], f"delocate lists {said}")
    return f"delocate: {' '.join(said)}"


def _run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    _demand(done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SystemExit(f"this wheel must not be given away: {otherwise}")
