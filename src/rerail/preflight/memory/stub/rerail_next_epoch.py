"""The loader workers of the second epoch, begun early, so that their memory can be measured.

The first workers are forked before the first step. The next ones share with their parent all that
a step has left there, and keep what it then writes over: only workers like these show how much.
Comes in: torch's DataLoader class, and a word before the last steps. Goes out: workers beside the
first ones, which end when the dry run stands still; a program that gets to its second epoch by
itself is given these. Promises: nothing is begun where there may not be enough memory for both.
"""

import os
import signal
import sys
import threading
import weakref

ENOUGH_STEPS = 2  # of the parent since the fork: then it has written over what a step writes over

_running = {}  # the loop under way: loader, iterator (weak: its end ends workers), steps before
_early = {}  # by id of the loader: the iterator that was begun early
_begin = None


def watch(dataloader, steps_done, mark):
    """Know which loader is gone through, since when; mark each time that one begins."""
    global _begin
    kind = dataloader.DataLoader
    _begin = kind.__iter__

    def begin_or_take_over(self):
        iterator = _early.pop(id(self), None)
        begun = _running["begun"] if iterator is not None else steps_done()
        mark("loop begun")
        if iterator is None:
            _early.clear()  # begun for another loader: these workers come instead
            iterator = _begin(self)
        if _forks(self) and hasattr(iterator, "_workers"):
            _running.update(loader=self, iterator=weakref.ref(iterator), begun=begun)
        return iterator

    kind.__iter__ = begin_or_take_over


def _forks(loader):
    """Workers of each epoch anew, by fork."""
    if not getattr(loader, "num_workers", 0) or getattr(loader, "persistent_workers", False):
        return False
    context = getattr(loader, "multiprocessing_context", None)
    if context is None:
        context = sys.modules["multiprocessing"]
    return context.get_start_method() == "fork"


def is_shown(steps):
    """Whether the steps have gone on long enough beside workers of a later epoch, or never will."""
    if not _running or _running["iterator"]() is None:
        return True
    return _running["begun"] > 0 and steps - _running["begun"] >= ENOUGH_STEPS


def begun():
    """After how many steps the workers of now were forked."""
    return _running.get("begun", 0)


def begin(steps, own_bytes, room_bytes):
    """Fork them now; whether there is anything to wait for. Later calls change nothing."""
    if is_shown(steps):
        return False
    if _running["begun"] > 0:
        return True  # in its second epoch by itself
    loader, first = _running["loader"], _running["iterator"]()
    if first is None or threading.current_thread() is not threading.main_thread():
        return False
    # At worst they come to hold as much again as there is now, in each of the ranks here.
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if room_bytes and 2 * ranks * (own_bytes + _private_bytes(first)) > room_bytes:
        return False
    _early[id(loader)] = _begin(loader)
    _running["begun"] = steps
    return True


def end_first():
    """End the workers of the first epoch; what was theirs alone. The process does not go on."""
    first = _running.get("iterator", lambda: None)()
    if not _early or first is None:
        return None
    own = _private_bytes(first)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's would raise here
    for process in first._workers:
        os.kill(process.pid, signal.SIGKILL)
    return own


def _private_bytes(iterator):
    total = 0
    for process in iterator._workers:
        try:
            with open("/proc/%d/smaps_rollup" % process.pid, "rb") as file:
                for line in file:
                    if line.startswith(b"Private_Dirty:"):
                        total += int(line.split()[1]) * 1024
        except OSError:
            pass
    return total
