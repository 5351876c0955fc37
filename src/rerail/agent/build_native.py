"""How the agent's C library is compiled: setuptools' build_ext with this system's flags.

Comes in: the extension `rerail.agent.native` of pyproject.toml. Goes out: native.abi3.so beside
this file. Promises: on Linux the library needs nothing but the C library, and shows nothing but
its own functions. Its unwinder is linked in: needing libgcc_s.so.1 would load the system's before
the one that a conda environment brings along, and a newer libstdc++ of that environment could
then not be loaded. A machine without a compiler gets no library, and `inject` says so.
"""

from __future__ import annotations

import sys
from typing import Any

from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

COMPILE = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-fvisibility=hidden"]
LINK_ON_LINUX = ["-static-libgcc", "-Wl,--exclude-libs,ALL", "-Wl,-z,now"]


class BuildNative(build_ext):  # type: ignore[misc]
    def build_extension(self, ext: Any) -> None:
        ext.extra_compile_args = [*COMPILE, *ext.extra_compile_args]
        if sys.platform == "linux":
            ext.extra_link_args = [*LINK_ON_LINUX, *ext.extra_link_args]
        # The interpreter's name for an extension module is not wanted: nobody imports this one.
        ext.export_symbols = []
        super().build_extension(ext)

    def get_export_symbols(self, ext: Any) -> list[str]:
        return []
