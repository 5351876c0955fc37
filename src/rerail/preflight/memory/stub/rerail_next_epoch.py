"""The loader workers of the second epoch, begun early, so that their memory can be measured.

The first workers are forked before the first step. The next ones share with their parent all that
a step has left there, and keep what it then writes over: only workers like these show how much.
Comes in: torch's DataLoader class, and a word before the last steps. Goes out: workers beside the
first ones, which end when the dry run stands still; a program that gets to its second epoch by
itself is given these. Promises: nothing is begun where there may not be enough memory for both, nor
where the loader is gone through once: no loop is around the loop over its batches.
"""

import dis
import os
import signal
import sys
import threading
import weakref

ENOUGH_STEPS = 2  # of the parent since the fork: then it has written over what a step writes over

# The loop under way: loader, iterator (weak: its end ends workers), steps before, whether it can
# come again.
_running = {}
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
            again = is_in_a_loop(sys._getframe(1))
            _running.update(loader=self, iterator=weakref.ref(iterator), begun=begun, again=again)
        return iterator

    kind.__iter__ = begin_or_take_over


def is_in_a_loop(frame):
    """Whether a place of the program comes again, in its function or in one that called it.

    `for batch in loader` asks for the iterator before its own loop begins. Where nothing fails:
    what a handler of exceptions would do again is not looked at.
    """
    try:
        while frame is not None:
            if _leads_back(frame.f_code, frame.f_lasti):
                return True
            frame = frame.f_back
    except Exception:
        return True
    return False


_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_ALWAYS = ("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")


def _leads_back(code, place):
    """Whether an instruction is reached from itself."""
    instructions = list(dis.get_instructions(code))
    at = {instruction.offset: index for index, instruction in enumerate(instructions)}
    here = max(index for offset, index in at.items() if offset <= max(place, 0))
    seen = set()
    ahead = [here]
    while ahead:
        index = ahead.pop()
        one = instructions[index]
        following = []
        if one.opname not in _ENDS and one.opname not in _ALWAYS:
            following.append(index + 1)
        is_jump = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
        if is_jump and not one.opname.startswith("SETUP_"):
            following.append(at.get(one.argval, index))
        if here in following:
            return True
        for each in following:
            if each < len(instructions) and each not in seen:
                seen.add(each)
                ahead.append(each)
    return False


def comes_again():
    """Whether workers of a later epoch are to be reckoned with."""
    return _running.get("again", True)


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
    if not _running or _running["iterator"]() is None or not _running["again"]:
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
