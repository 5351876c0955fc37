"""How the agent comes in where Python does not look at PYTHONPATH: run by the preloaded library.

`folder` is set by whoever runs this text. The import path is given the folder for the moment of
one import and is as before afterwards.
"""

import sys


def _start(folder):
    if "rerail_agent" in sys.modules:
        return
    sys.path.insert(0, folder)
    try:
        import rerail_agent

        rerail_agent.start(folder)
    except BaseException:
        pass
    finally:
        try:
            sys.path.remove(folder)
            sys.path_importer_cache.pop(folder, None)
        except BaseException:
            pass


_start(folder)  # noqa: F821  given by start.c
