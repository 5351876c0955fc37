"""When memory grows step after step: what of it is new, and who holds it?

Comes in: the number of a step (or of a worker's batch) that has just ended, in the thread that
made it. Goes out: lines in <pid>-<start>.census beside the black box, six at most in a process. The
first is taken at the first sign of growth and only says how things stood; each later one, when the
growth since then has doubled, says what is new since the first. Promises: nothing of the program is
called, changed or kept; each look is bounded in time; no exception of ours leaves.

docs/design/what-leaks.md tells what was measured.
"""

import os
import sys
from time import monotonic_ns, perf_counter, thread_time

import rerail_box as box
import rerail_imports
import rerail_native as native

holders = rerail_imports.hook_module("rerail_census_holders")
room = rerail_imports.hook_module("rerail_census_room")
sizes = rerail_imports.hook_module("rerail_census_sizes")

NEVER = (1 << 63) - 1
LEAST_GROWTH = 24 << 20  # allocators breathe by tens of MiB
LEAST_STEPS = 8
MOST_CENSUSES = 6
LOOK_PAUSE = 0.25  # seconds between two looks at the resident size, which cost 10 µs each
PRIVATE_PAUSE = 1.0  # in a loader's worker, where a look takes 10 ms
ROOM_PAUSE = 5.0  # where there is no room for a census: until it is asked again
PAGE = os.sysconf("SC_PAGE_SIZE")
HERE = __file__.rpartition("/")[0]


class Watch:
    """Of one process: how much memory it had, and which censuses it took."""

    def __init__(self, is_worker):
        self.pid = os.getpid()
        self.is_worker = is_worker
        self.floor = None
        self.first = None  # (step, bytes) of the first census
        self.last_growth = 0
        self.taken = 0
        self.stride = 1
        self.looked = 0.0
        self.pause = PRIVATE_PAUSE if is_worker else LOOK_PAUSE
        self.faults = 0
        self.before = holders.Before()

    def next_look(self, step):
        now = perf_counter()
        took = now - self.looked
        if took < self.pause:
            self.stride = min(self.stride * 2, 4096, max(1, step // 4))
        elif took > 2 * self.pause:
            self.stride = max(self.stride // 2, 1)
        self.looked = now
        return step + self.stride

    def is_due(self, step, used):
        if self.floor is None or used < self.floor:
            self.floor = used
        if self.first is None:
            return used - self.floor >= LEAST_GROWTH
        growth = used - self.first[1]
        return (
            growth >= max(LEAST_GROWTH, 2 * self.last_growth)
            and step - self.first[0] >= LEAST_STEPS
        )


_watch = None


def start_in_worker():
    """In a loader's worker: what its parent had counted is not its own."""
    global _watch
    _watch = Watch(True)


def look(step):
    """Take a census if one is due. Out: the step at which to look again."""
    global _watch
    try:
        if _watch is None or _watch.pid != os.getpid():
            _watch = Watch(False)
        watch = _watch
        if not native.may_open():
            return NEVER
        used = _used_by_worker(watch) if watch.is_worker else resident_bytes()
        if used is None:
            return NEVER if not watch.is_worker else watch.next_look(step)
        if watch.is_due(step, used) and not _is_left_out(watch):
            _take(watch, step, used)
            if watch.taken >= MOST_CENSUSES:
                return NEVER
        return watch.next_look(step)
    except Exception as error:
        if not _is_ours(error):
            raise  # a signal handler of the program raised it
        box.note_failure("census is off", error)
        return NEVER


def _is_left_out(watch):
    """A worker looks at few objects; who looks at all of them may copy what others share."""
    why = None if watch.is_worker else room.shortage()
    if why is None:
        return False
    if watch.pause != ROOM_PAUSE:
        watch.pause = ROOM_PAUSE
        box.note("census left out: " + why)
    return True


def _is_ours(error):
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    folder = place.tb_frame.f_code.co_filename.rpartition("/")[0]
    return folder == HERE or folder.endswith("/json")


def resident_bytes():
    """Memory in RAM that is no file's; None where there is no /proc."""
    try:
        descriptor = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        words = os.read(descriptor, 256).split()
    finally:
        os.close(descriptor)
    return (int(words[1]) - int(words[2])) * PAGE


def _used_by_worker(watch):
    """What is the worker's alone. A page that it shares is resident from the fork on, and becomes
    its own when anybody writes to it: the resident size does not show that, page faults do."""
    import resource

    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    if watch.floor is not None and (faults - watch.faults) * PAGE < LEAST_GROWTH // 2:
        return None
    watch.faults = faults
    before = watch.floor
    used = room.rolled_up(b"Private_Dirty:")
    if used is not None and before is not None and used - before < LEAST_GROWTH // 2:
        watch.pause = min(watch.pause * 2, 60.0)  # faults of memory that comes and goes
    return used


def _take(watch, step, used):
    began, worked = perf_counter(), thread_time()
    is_first = watch.first is None
    if is_first:
        watch.first = (step, used)
    else:
        watch.last_growth = used - watch.first[1]
    watch.taken += 1
    line = {
        "schema": 1,
        "monotonic_ns": monotonic_ns(),
        "step": step,
        "is_worker": watch.is_worker,
        "used_bytes": used,
        "floor_bytes": watch.floor,
        "resident_bytes": resident_bytes(),
        "since_step": watch.first[0],
        "blocks": sys.getallocatedblocks(),
        "heap_bytes": sizes.heap_bytes(),
        "mapped_files": _mapped_files(),
    }
    grown = []
    if not watch.is_worker:
        written, grown = sizes.scan(watch.before)
        line.update(written)
    # The frame of the program's own that made this step.
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.rpartition("/")[0] == HERE:
        frame = frame.f_back
    line.update(holders.census(frame, watch.before, grown, watch.is_worker))
    watch.before.is_first = False
    del frame, grown
    line["took_seconds"] = round(perf_counter() - began, 4)
    line["worked_seconds"] = round(thread_time() - worked, 4)
    _write(line)


def _mapped_files():
    try:
        with open("/proc/self/maps", "rb") as maps:
            return len({line.split(None, 5)[5] for line in maps if b" /" in line})
    except (OSError, IndexError):
        return None


def _write(line):
    import json

    text = json.dumps(line).encode("ascii", "replace") + b"\n"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(native.path_of(".census"), flags, 0o600)
    except OSError as error:
        box.note_failure("census", error)
        return
    try:
        os.write(descriptor, text)
    except OSError as error:
        box.note_failure("census", error)
    finally:
        os.close(descriptor)
