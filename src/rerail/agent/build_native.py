"""How the agent's C library is compiled, and what the wheel with it is called.

Comes in: the extension `rerail.agent.native` of pyproject.toml and, for a wheel of another
platform, its tag in RERAIL_WHEEL_PLATFORM. Goes out: native.abi3.so beside this file, in a wheel
that is tagged py3-none-PLATFORM: the library is not linked to Python, one serves every CPython.
Promises: on Linux the library needs nothing but the C library, and shows nothing but its own
functions (native/exports.map). Its unwinder is linked in: needing libgcc_s.so.1 would load the
system's before the one that a conda environment brings along, and a newer libstdc++ of that
environment could then not be loaded. A machine without a compiler gets no library: that is said
here, and by every `rerail run`. A wheel for another platform is never built without it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

from setuptools.command.bdist_wheel import bdist_wheel  # type: ignore[import-untyped]
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

if sys.platform == "win32":
    raise SystemExit("rerail runs on Linux and macOS. On Windows install it inside WSL.")

COMPILE = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-fvisibility=hidden"]
EXPORTS = "-Wl,--version-script=src/rerail/agent/native/exports.map"
LINK_ON_LINUX = ["-static-libgcc", EXPORTS, "-Wl,-z,now"]

PLATFORM = "RERAIL_WHEEL_PLATFORM"
# What zig calls the platforms of our wheels. glibc 2.17 is that of CentOS 7; macOS 11 is the first
# that runs on arm64, and 10.13 the oldest that CPython 3.10 and later are built for.
ZIG_TARGETS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "macosx_10_13_x86_64": "x86_64-macos.10.13",
}
# zig compiles traps for undefined behaviour in unless it is told not to. A warning is an error
# here, since the compiler is always the same.
ZIG_COMPILE = [*COMPILE, "-Werror", "-g0", "-fPIC", "-fno-sanitize=undefined"]
ZIG_LINK_ON_LINUX = [EXPORTS, "-Wl,-z,now"]
# LLVM's unwinder, whose sources zig brings. As zig itself compiles it, it would need a megabyte of
# stack in a signal handler: native/unwinder_rows.h says why.
UNWINDER = ["libunwind.cpp", "UnwindRegistersSave.S", "UnwindRegistersRestore.S"]
UNWINDER_COMPILE = [
    *("-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-fno-sanitize=undefined", "-DNDEBUG"),
    *("-fno-exceptions", "-fno-rtti", "-nostdinc++", "-funwind-tables"),
    *("-D_LIBUNWIND_IS_NATIVE_ONLY", "-D_LIBUNWIND_DISABLE_VISIBILITY_ANNOTATIONS"),
    *("-include", "src/rerail/agent/native/unwinder_rows.h"),
]

NOT_BUILT = """
*** rerail is installed WITHOUT its C library, because it could not be compiled here:
***   {why}
*** Crashes will be recorded without stacks, and every `rerail run` will say so.
*** Install a C compiler (Debian: apt install gcc libc6-dev; macOS: xcode-select --install),
*** then: pip install --force-reinstall --no-deps --no-cache-dir rerail
"""


class BuildNative(build_ext):  # type: ignore[misc]
    def build_extension(self, ext: Any) -> None:
        target = ZIG_TARGETS.get(os.environ.get(PLATFORM, ""))
        if target is not None:
            self._use_zig(ext, target)
        else:
            ext.extra_compile_args = [*COMPILE, "-g", *ext.extra_compile_args]
            if sys.platform == "linux":
                ext.extra_link_args = [*LINK_ON_LINUX, *ext.extra_link_args]
        # The interpreter's name for an extension module is not wanted: nobody imports this one.
        ext.export_symbols = []
        try:
            super().build_extension(ext)
        except Exception as error:
            if target is not None:
                raise SystemExit(f"the C library for {target} cannot be built: {error}") from error
            say_loudly(NOT_BUILT.format(why=" ".join(str(error).split())[:200]))

    def _use_zig(self, ext: Any, target: str) -> None:
        """Instead of what the interpreter was compiled with: no flag of this machine's enters."""
        import ziglang

        zig = [sys.executable, "-m", "ziglang", "cc", "-target", target]
        ext.extra_compile_args, ext.extra_link_args = ZIG_COMPILE, []
        if "-linux-" in target:
            unwinder = f"{os.path.dirname(ziglang.__file__)}/lib/libunwind"  # noqa: PTH120
            headers = ["-isystem", f"{unwinder}/include"]
            ext.extra_compile_args = [*ZIG_COMPILE, "-DRERAIL_LLVM_UNWINDER", *headers]
            ext.extra_link_args = ZIG_LINK_ON_LINUX
            os.makedirs(self.build_temp, exist_ok=True)  # noqa: PTH103
            for name in UNWINDER:
                made = f"{self.build_temp}/{name}.o"
                where = [*headers, f"-I{unwinder}/src", "-c", f"{unwinder}/src/{name}", "-o", made]
                self.spawn([*zig, *UNWINDER_COMPILE, *where])
                ext.extra_objects = [*ext.extra_objects, made]
        self.compiler.set_executables(compiler_so=zig, linker_so=[*zig, "-shared", "-s"])
        self.compiler.set_include_dirs([])
        self.compiler.set_library_dirs([])
        self.compiler.set_runtime_library_dirs([])

    def get_export_symbols(self, ext: Any) -> list[str]:
        return []


class BuildWheel(bdist_wheel):  # type: ignore[misc]
    def get_tag(self) -> tuple[str, str, str]:
        wanted = os.environ.get(PLATFORM)
        if wanted and wanted not in ZIG_TARGETS:
            raise SystemExit(f"{PLATFORM}={wanted} is none of {', '.join(ZIG_TARGETS)}")
        return "py3", "none", wanted or super().get_tag()[2]


def say_loudly(text: str) -> None:
    """pip keeps what a build prints to itself, so it is said on the terminal as well."""
    sys.stderr.write(text)
    if sys.stderr.isatty():
        return
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(terminal, text.replace("\n", "\r\n").encode())
        finally:
            os.close(terminal)
