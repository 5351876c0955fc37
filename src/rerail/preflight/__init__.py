"""Before the run: what in an environment, and in a command's memory needs, will kill it.

`audit` looks without running anything; `quick` is the part of it that costs nothing.
"""

from rerail.preflight.audit import Audit, audit, quick
from rerail.preflight.finding import Finding

__all__ = ["Audit", "Finding", "audit", "quick"]
