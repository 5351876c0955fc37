"""`rerail run` with one failure: the n-th call of this process to the system fails, once.

Arguments: n, the failure (EMFILE, ENOMEM, ENOSPC, MemoryError, ImportError or RecursionError), then
those of rerail. Python tells its audit hooks of every open, import, fork, exec and mapping before
it happens, and a hook that raises makes it fail. Helpers that are forked before the n-th call count
on by themselves, so theirs fails too.
"""

import errno
import os
import sys

from rerail import __main__ as start

place, kind = int(sys.argv[1]), sys.argv[2]
sys.argv[1:] = sys.argv[3:]
COUNTED = ("open", "import", "os.", "socket.", "ctypes.", "mmap", "fcntl.", "subprocess.", "pty.")
calls = 0


def fail_once(event, arguments):
    global calls
    if not event.startswith(COUNTED):
        return
    calls += 1
    if calls != place:
        return
    if hasattr(errno, kind):
        number = getattr(errno, kind)
        raise OSError(number, os.strerror(number))
    raise {"MemoryError": MemoryError, "ImportError": ImportError}.get(kind, RecursionError)()


sys.addaudithook(fail_once)
sys.exit(start.main())
