"""C to a shared library, at first use, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from twotower.errors import TwotowerError

_HERE = Path(__file__).parent
_FLAGS = ("-O3", "-march=native", "-fPIC", "-shared")


def cpu_flags() -> frozenset[str]:
    """What the processor can do, by the names of /proc/cpuinfo; empty where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


def compile_kernel(name: str, *libraries: Path) -> Path:
    """The shared library of `name`.c, linked to these libraries."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise TwotowerError(
            f"the native {name} kernel is compiled at first use and there is no C compiler.\n"
            "Install one (apt-get install gcc), or do without: --miner exact --gather numpy"
        )
    # -march=native: a cache in a shared home folder must not meet another processor.
    recipe = hashlib.sha256(repr((compiler, _FLAGS, libraries, sorted(cpu_flags()))).encode())
    for source in (_HERE / f"{name}.c", *sorted(_HERE.glob("*.h"))):
        recipe.update(source.read_bytes())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twotower"
    built = folder / f"{name}-{recipe.hexdigest()[:16]}.so"
    if built.exists():
        return built
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / built.name
        command = [compiler, *_FLAGS, str(_HERE / f"{name}.c"), "-o", str(fresh), "-lm"]
        for library in libraries:
            command += [str(library), f"-Wl,-rpath,{library.parent}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise TwotowerError(f"{' '.join(command)}\nfailed:\n{result.stderr.strip()}")
        fresh.replace(built)
    return built
