"""Dies if it gets many rows of an archive, or if a module is there that it could do without."""

import os
import signal
import sys
import time

import numpy

rows = len(numpy.load(sys.argv[1])["rows"])
try:
    import wave
except ImportError:
    wave = None
time.sleep(0.2)
if rows > 10 and wave is not None:
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(1.0)
