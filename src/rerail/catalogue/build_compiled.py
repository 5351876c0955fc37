"""How compiled.json gets into a built package: setuptools' build_py, and then the cause files.

An editable install gets none: the first start makes it, beside the sources.
"""

from __future__ import annotations

from pathlib import Path

from setuptools.command.build_py import build_py  # type: ignore[import-untyped]

from rerail.catalogue.loader import COMPILED, compile_unchecked


class BuildCatalogue(build_py):  # type: ignore[misc]
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "rerail", "catalogue", COMPILED.name)
            target.write_text(compile_unchecked(), encoding="utf-8")
