"""How a further process of rerail's own is started, whoever the caller is and wherever it stands.

In: the name of a module with a `main`. Out: the words of a command that runs it with this
interpreter. Promises: no module of the user's working folder is taken for one of ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rerail

# Not -m, which would look for modules in the working folder first: a json.py of the user's is not
# meant for us. Our own folder comes last, for a caller that found us by a path of its own.
_START = """\
import sys
sys.path[:] = [path for path in sys.path if path]
sys.path.append({folder!r})
from {module} import main
sys.exit(main())
"""


def own_process(module: str) -> list[str]:
    folder = str(Path(rerail.__file__).parent.parent)
    return [sys.executable, "-c", _START.format(folder=folder, module=module)]
