"""The flight recorder: runs the command, and writes down what happened.

`record(command, store, options)` is the door; what it writes is in docs/run-folder.md, what it
promises in docs/recorder.md.
"""

from rerail.recorder.run.launch import CommandNotStarted
from rerail.recorder.run.record import record
from rerail.recorder.run.recording import Recording, RunOptions

__all__ = ["CommandNotStarted", "Recording", "RunOptions", "record"]
