"""How a dry run comes into the program: Python imports `sitecustomize` at start.

The agent's own file of this name comes first and passes on to this one; this one starts the dry
run, takes its folder out of the import path and passes on to the user's, if there is one.
"""

import sys


def _start():
    folder = __file__.rpartition("/")[0]
    try:
        import rerail_rehearsal

        rerail_rehearsal.start()
    except BaseException:  # the program is not to notice
        pass
    sys.path[:] = [e for e in sys.path if not (isinstance(e, str) and e.rstrip("/") == folder)]
    sys.path_importer_cache.pop(folder, None)


_start()
del _start
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401  the user's, or the error that Python expects
