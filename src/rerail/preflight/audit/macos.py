"""What only macOS does: fork in a process with frameworks loaded, and the Apple GPU's settings.

In: the target. Out: findings; none on other systems.
"""

from __future__ import annotations

import sys

from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.target import Target


def find_macos(target: Target, platform: str = sys.platform) -> list[Finding]:
    if platform != "darwin":
        return []
    found = []
    if "fork" in target.program.start_methods:
        found.append(
            Finding(
                "macos-fork-unsafe",
                "risky",
                "The program asks for fork on macOS",
                "Apple's frameworks (Accelerate, Metal, the network) crash in a forked child:"
                " objc +[...] may have been in progress in another thread when fork() was called.",
                ("start processes with spawn, which is the default there",),
                (target.program.start_methods["fork"],),
                source="https://github.com/python/cpython/issues/77906",
            )
        )
    if "torch" in target.imported and not target.environ.get("PYTORCH_ENABLE_MPS_FALLBACK"):
        found.append(
            Finding(
                "mps-failed",
                "fine",
                "Operators that the Apple GPU lacks will raise NotImplementedError",
                "PYTORCH_ENABLE_MPS_FALLBACK=1 lets the CPU do them.",
                source="https://docs.pytorch.org/docs/stable/mps_environment_variables.html",
            )
        )
    return found
