"""How the agent comes in where Python does not look at PYTHONPATH: run by the preloaded library.

`folder` is set by whoever runs this text. The import path has the folder for the moment of one
import and lacks it afterwards: -S keeps Python from the sitecustomize that would take it out.
"""

import sys


def _start(folder):
    if "rerail_agent" in sys.modules:
        return  # sitecustomize was first
    sys.path.insert(0, folder)
    try:
        import rerail_agent

        rerail_agent.start(folder)
    except BaseException:
        pass
    finally:
        try:
            sys.path[:] = [entry for entry in sys.path if entry != folder]
            sys.path_importer_cache.pop(folder, None)
        except BaseException:
            pass


_start(folder)  # noqa: F821  given by start.c
