"""The magics of `%load_ext rerail`, as IPython wants them."""

from __future__ import annotations

from IPython.core.magic import Magics, line_cell_magic, magics_class

from rerail.integrations.notebook import act


@magics_class
class RerailMagics(Magics):  # type: ignore[misc]  # IPython is not looked at by the type checker
    @line_cell_magic  # type: ignore[untyped-decorator]
    def rerail(self, line: str, cell: str | None = None) -> None:
        """`%rerail on` records this kernel, `%rerail off` ends that; `%%rerail` begins with a cell.

        `%rerail` alone says how things stand, `%rerail last` why the last run died.
        """
        act(line, cell, self.shell.run_cell)
