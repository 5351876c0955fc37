"""One reader per kind of checkpoint file: does it hold together, without running anything in it?

Each `check_...` takes an open binary file, its size and a `Budget`, and returns a `Reading`, or
raises `Torn` with the reason, or `Unfinished`. Nothing is unpickled, imported or written; what the
file claims about its own size is never believed for the memory or the time to be spent on it.
"""

from rerail.checkpoints.formats.outcome import Reading, Torn, Unfinished

__all__ = ["Reading", "Torn", "Unfinished"]
