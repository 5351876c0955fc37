"""One reader per kind of checkpoint file: does it hold together, without running anything in it?

Each `check_...` takes an open binary file and its size, and returns what the file is in words, or
raises `Torn` with the reason. Nothing is unpickled, imported or written.
"""

from rerail.remedies.formats.torn import Torn

__all__ = ["Torn"]
