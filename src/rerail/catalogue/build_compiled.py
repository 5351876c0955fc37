"""How compiled.json gets into a built package, in the place of the files that it is made of:
one of the causes, one of the wordings.

An editable install gets none: the first start makes it, beside the sources. The same holds where
the catalogue cannot be read while building, because a build environment holds setuptools alone:
rerail is imported here from its own source tree, and only when the file is to be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools.command.build_py import build_py  # type: ignore[import-untyped]

SOURCES = Path(__file__).resolve().parents[2]


class BuildCatalogue(build_py):  # type: ignore[misc]
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(SOURCES))
        try:
            from rerail.catalogue.loader import COMPILED, compile_unchecked, source_files
            from rerail.platform import wordings

            text = compile_unchecked()
            target = Path(self.build_lib, "rerail", "catalogue", COMPILED.name)
            target.write_text(text, encoding="utf-8")
            for path in source_files():
                (target.parent / path.relative_to(COMPILED.parent)).unlink(missing_ok=True)
            of_wordings = target.parent / wordings.FOLDER.name
            text = wordings.compile_wordings()
            (of_wordings / wordings.COMPILED.name).write_text(text, encoding="utf-8")
            for path in wordings.source_files():
                (of_wordings / path.name).unlink(missing_ok=True)
        except ImportError as error:
            self.announce(f"compiled.json is left to the first start: {error}", level=3)
        finally:
            sys.path.remove(str(SOURCES))
