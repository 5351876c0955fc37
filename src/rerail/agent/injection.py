"""Which variables bring the agent into a command, and what will be missing.

Comes in: the folder for the agent's files, the environment the command would get, the command.
Goes out: an Injection, the variables to set on top and notes for the record. Promises: `environ`
is not changed; LD_PRELOAD is set only where the interpreter would not see PYTHONPATH.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rerail.agent.preload import preloadable
from rerail.platform.python_flags import needs_preload

HERE = Path(__file__).resolve().parent
STUB = HERE / "stub"
IN_MEMORY = "RERAIL_AGENT_MEMORY"
NO_LIBRARY = "no C library: a crash leaves no stacks. Install gcc, then rerail again"
# macOS has DYLD_INSERT_LIBRARIES for it, and takes that away from every program that system
# integrity protection covers, /usr/bin/python3 and /bin/sh among them, and so from their children.
ON_MACOS = ", since macOS takes DYLD_INSERT_LIBRARIES from the programs that it protects"


@dataclass(frozen=True)
class Injection:
    variables: dict[str, str]
    notes: list[str] = field(default_factory=list)
    warning: str | None = None  # for who started the run, in one line


def native_library() -> Path | None:
    """The C library, or None where rerail was installed without a compiler."""
    path = HERE / "native.abi3.so"
    return path if path.is_file() else None


def inject(
    agent_dir: Path,
    environ: Mapping[str, str],
    command: Sequence[str],
    t0_ns: int,
    preload: bool | None = None,
    use_census: bool = True,
    memory: Path | None = None,
) -> Injection:
    """What to add to `environ`. `preload` forces LD_PRELOAD on or off; None looks at `command`.

    `memory` is the folder of the run in memory, which the agent prefers to `agent_dir`.
    """
    notes = []
    variables = {
        "RERAIL_AGENT": str(agent_dir.absolute()),
        "RERAIL_T0": str(t0_ns),
        "PYTHONPATH": _in_front(str(STUB), environ.get("PYTHONPATH")),
    }
    if memory is not None:
        variables[IN_MEMORY] = str(memory)
    elif IN_MEMORY in environ:
        variables[IN_MEMORY] = ""  # of a run around this one
    if not use_census:
        variables["RERAIL_CENSUS"] = "0"
    library = native_library()
    if library is None:
        notes.append(
            "the agent's C library was not built (no C compiler when rerail was installed):"
            " crashes are recorded without stacks"
        )
    reason = needs_preload(command, environ) if preload is None else None
    if preload or reason:
        if sys.platform != "linux":
            notes.append(f"no agent in the process: {reason or 'preloading'} needs Linux{ON_MACOS}")
        elif library is not None:
            name = preloadable(str(library))
            if name is None:
                notes.append(f"the agent is not preloaded: LD_PRELOAD cannot name {library}")
            else:
                variables["LD_PRELOAD"] = _in_front(name, environ.get("LD_PRELOAD"))
                notes.append(f"the agent is preloaded: {reason or 'asked for'}")
    return Injection(variables, notes, NO_LIBRARY if library is None else None)


def _in_front(entry: str, present: str | None) -> str:
    """`entry` before what was there, once: a run inside a run names it already.

    An empty element of PYTHONPATH means the working folder, so nothing is dropped or added.
    """
    if not present:
        return entry
    kept = [part for part in present.split(":") if part != entry]
    return ":".join([entry, *kept]) if kept else entry
