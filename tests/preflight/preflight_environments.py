"""Environments to be checked, made by hand: metadata, native files, an interpreter's place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
KMP = 'void __kmpc_fork_call(void) {}\nconst char *who = "%s";\n'
GOMP = "void GOMP_parallel(void) {}\n"


class Environment:
    """A virtual environment on disk, with packages that are only metadata and native files."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.site = prefix / "lib" / f"python{VERSION}" / "site-packages"

    @property
    def python(self) -> str:
        return str(self.prefix / "bin" / "python")

    def add(
        self, name: str, version: str = "1.0", *, requires: tuple[str, ...] = (), tag: str = ""
    ) -> Path:
        """A package with one module; the folder that its native files belong in."""
        module = self.site / name.replace("-", "_")
        module.mkdir()
        (module / "__init__.py").write_text("")
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n\n")
        if tag:
            (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
        self.record(name, version)
        return module

    def record(self, name: str, version: str = "1.0") -> None:
        """Write RECORD from what is there now."""
        module = self.site / name.replace("-", "_")
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        files = [p.relative_to(self.site) for p in sorted(module.rglob("*")) if p.is_file()]
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))

    def compile(self, path: Path, source: str, *flags: str) -> Path:
        code = path.with_suffix(".c")
        code.write_text(source)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", str(path), str(code), *flags], check=True, timeout=180
        )
        code.unlink()
        return path

    def add_with_runtime(self, name: str, source: str, soname: str) -> Path:
        """A package whose extension module needs an OpenMP runtime that it brings itself."""
        module = self.add(name)
        library = self.compile(module / soname, source, f"-Wl,-soname,{soname}")
        self.compile(
            module / "_native.abi3.so",
            "void run(void) {}\n",
            "-Wl,--no-as-needed",
            str(library),
            "-Wl,-rpath,$ORIGIN",
        )
        self.record(name)
        return library


def bare_environment(prefix: Path) -> Environment:
    found = Environment(prefix)
    found.site.mkdir(parents=True)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(sys.executable)
    home = Path(sys.base_prefix) / "bin"
    version = sys.version.split()[0]
    (prefix / "pyvenv.cfg").write_text(
        f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    return found
