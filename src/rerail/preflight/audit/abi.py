"""Extension modules against the libraries that they were built for, told from the files.

In: the closure. Out: findings. An extension built with NumPy 1's headers names only the old place
of NumPy's C interface and cannot start under NumPy 2. An extension of torch whose undefined names
no library of torch exports cannot be loaded. A library that needs a newer GLIBC or GLIBCXX than
there is cannot be loaded either.
"""

from __future__ import annotations

import mmap
import platform
import re
from pathlib import Path

from rerail.platform.elf import ElfFile, gnu_hash
from rerail.platform.elf_dynamic import LinkedElf, NotElf
from rerail.preflight.audit.closure import Closure, built_for
from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.known import numbers
from rerail.preflight.audit.target import Target
from rerail.wording import listed

_OLD_PLACE, _NEW_PLACE = b"numpy.core._multiarray_umath", b"numpy._core._multiarray_umath"
_TORCH_LIBRARIES = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")
_TORCH_NAME = re.compile(rb"^_ZN?K?\d*(?:3c10|2at|5torch|4c10d|N3c10|NK3c10|N2at|N5torch)")
_MOST_EXTENSION_BYTES = 400 << 20
_NAMED = 6


def find_numpy_mismatch(target: Target, closure: Closure) -> list[Finding]:
    version = target.version_of("numpy")
    if version is None or numbers(version)[:1] < (2,):
        return []
    old: dict[str, str] = {}
    for path in sorted(closure.links):
        users = closure.brought_by.get(path, set())
        if "numpy" in users and len(users) == 1:
            continue
        if _is_module(path) and _is_for_numpy_1(path):
            old.setdefault(sorted(users)[0], path)
    if not old:
        return []
    names = listed(sorted(old)[:_NAMED])
    return [
        Finding(
            "numpy-abi-mismatch",
            "fatal",
            f"{names}: compiled for NumPy 1, and NumPy {version} is installed",
            "A module that was compiled using NumPy 1.x cannot be run in NumPy 2: import fails.",
            (
                f"pip install --upgrade {' '.join(sorted(old)[:_NAMED])}",
                "or: pip install 'numpy<2'",
            ),
            tuple(old.values()),
            source="https://numpy.org/doc/stable/dev/depending_on_numpy.html",
        )
    ]


def _is_module(path: str) -> bool:
    name = path.rpartition("/")[2]
    return not name.startswith("lib") and ".so" in name


def _is_for_numpy_1(path: str) -> bool:
    """NumPy 2's headers know both places, NumPy 1's only the old one."""
    try:
        with (
            Path(path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content,
        ):
            if len(content) > _MOST_EXTENSION_BYTES or content.find(_OLD_PLACE) < 0:
                return False
            return content.find(_NEW_PLACE) < 0
    except (OSError, ValueError):
        return False


def find_torch_mismatch(target: Target, closure: Closure) -> list[Finding]:
    """Undefined names of torch's extensions that torch here does not export."""
    torch = target.distributions.get("torch")
    if torch is None:
        return []
    exporters = [p for p in torch.native if p.rpartition("/")[2] in _TORCH_LIBRARIES]
    found = []
    for path, links in sorted(closure.links.items()):
        users = closure.brought_by.get(path, set())
        if "torch" in users or not any(need in _TORCH_LIBRARIES for need in links.needed):
            continue
        missing = _missing_names(path, exporters)
        if missing:
            who = sorted(users)[0]
            found.append(
                Finding(
                    "torch-abi-mismatch",
                    "fatal",
                    f"{who} was built for another torch than {torch.version}",
                    f"{path.rpartition('/')[2]} needs {missing[0]}, which this torch does not have"
                    + (f", and {len(missing) - 1} more." if len(missing) > 1 else "."),
                    (f"install the {who} that was built for torch {torch.version}",),
                    (path,),
                )
            )
    return found


def _missing_names(path: str, exporters: list[str]) -> list[str]:
    try:
        with LinkedElf(path) as elf:
            wanted = {name for name in elf.undefined() if _TORCH_NAME.match(name)}
        for exporter in exporters:
            if not wanted:
                return []
            with ElfFile(exporter) as elf:
                wanted -= elf.exports([(name, gnu_hash(name)) for name in wanted])
    except NotElf:
        return []
    return sorted(name.decode(errors="replace") for name in wanted)


def find_missing_libraries(target: Target, closure: Closure) -> list[Finding]:
    """Libraries that no folder holds. One optional module of many is a lesser matter."""
    by_user: dict[str, list[tuple[str, str]]] = {}
    for (path, wanted), who in sorted(closure.missing.items()):
        made_for = built_for(path)
        if made_for is None or made_for == target.python:
            by_user.setdefault(who, []).append((path, wanted))
    found = []
    for who, pairs in by_user.items():
        names = sorted({name for _, name in pairs})
        roots = [p for p, users in closure.brought_by.items() if who in users and _is_module(p)]
        is_all = len({path for path, _ in pairs}) >= max(1, len(roots) // 2)
        found.append(
            Finding(
                "missing-shared-library",
                "fatal" if is_all else "risky",
                f"{who} needs {listed(names[:_NAMED])}, which is not on this machine",
                "Importing it fails: cannot open shared object file."
                if is_all
                else "A part of it cannot be imported.",
                (_how_to_get(names[0]),),
                tuple(path for path, _ in pairs[:_NAMED]),
            )
        )
    return found


_PROVIDERS = {
    "libGL.so.1": "apt install libgl1 (or pip install opencv-python-headless)",
    "libgthread-2.0.so.0": "apt install libglib2.0-0",
    "libglib-2.0.so.0": "apt install libglib2.0-0",
    "libgomp.so.1": "apt install libgomp1",
    "libsndfile.so.1": "apt install libsndfile1",
    "libcuda.so.1": "install the NVIDIA driver, or start the container with its GPUs",
}


def _how_to_get(library: str) -> str:
    return _PROVIDERS.get(library, f"install the system package that holds {library}")


def find_old_runtimes(closure: Closure) -> list[Finding]:
    """GLIBC_x and GLIBCXX_x that are asked for and not offered."""
    name, has_text = platform.libc_ver()
    newest: dict[str, tuple[tuple[int, ...], str, str]] = {}
    for path, links in closure.links.items():
        for library, versions in links.versions.items():
            for version in versions:
                kind, _, number = version.partition("_")
                if kind in ("GLIBC", "GLIBCXX") and number[:1].isdigit():
                    key = numbers(number)
                    if key > newest.get(kind, ((), "", ""))[0]:
                        newest[kind] = (key, path, library)
    found = []
    if "GLIBC" in newest and name == "glibc" and newest["GLIBC"][0] > numbers(has_text):
        found.append(_too_old("GLIBC", newest["GLIBC"], closure, f"glibc {has_text}"))
    if "GLIBCXX" in newest:
        offered = _offered_cxx(closure)
        if offered and newest["GLIBCXX"][0] > max(offered):
            has = ".".join(map(str, max(offered)))
            found.append(_too_old("GLIBCXX", newest["GLIBCXX"], closure, f"GLIBCXX_{has}"))
    return found


def _offered_cxx(closure: Closure) -> list[tuple[int, ...]]:
    for path in closure.brought_by:
        if path.rpartition("/")[2].startswith("libstdc++.so"):
            try:
                content = Path(path).read_bytes()
            except OSError:
                continue
            names = re.findall(rb"GLIBCXX_(\d+(?:\.\d+)+)\0", content)
            return [numbers(found.decode()) for found in names]
    return []


def _too_old(
    kind: str, newest: tuple[tuple[int, ...], str, str], closure: Closure, has: str
) -> Finding:
    version, path, _ = newest
    who = listed(sorted(closure.brought_by.get(path, set()))[:3])
    wanted = f"{kind}_{'.'.join(map(str, version))}"
    return Finding(
        "libstdcxx-too-old",
        "fatal",
        f"{who} needs {wanted}, and this machine has {has}",
        f"Loading it fails: version `{wanted}' not found.",
        ("install an older wheel of it, or a newer system (a container image)",)
        if kind == "GLIBC"
        else ("conda install -c conda-forge libstdcxx-ng", "or put a newer libstdc++ in front"),
        (path,),
    )
