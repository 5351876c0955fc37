"""How the agent comes in: Python imports `sitecustomize` at start, and this folder is first.

Starts the agent, then makes it as if this file had never been there: its folder leaves the import
path, and the user's own sitecustomize, if there is one, is imported under the name. If there is
none, the import fails as it would have, which Python expects and passes over in silence.
"""

import sys


def _start():
    folder = __file__.rpartition("/")[0]
    try:
        import rerail_agent

        rerail_agent.start(folder)
    except BaseException:  # nothing of the agent may reach the user's program
        pass
    # However the folder was spelled, and however often it was named.
    sys.path[:] = [e for e in sys.path if not (isinstance(e, str) and e.rstrip("/") == folder)]
    sys.path_importer_cache.pop(folder, None)


_start()
del _start
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401  the user's, or the error that Python expects
