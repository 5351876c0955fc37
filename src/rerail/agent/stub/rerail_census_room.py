"""Is there room for a look at all objects, or would the look itself use up the memory?

Comes in: nothing; asked in the process that is about to look. Goes out: `shortage()`, None where a
look is safe, else why not in words. Promises: a few small files of /proc and /sys are read.

To look at an object is to count a reference to it, and that is a write. Where forked children share
the pages with this process, each page that is written to is copied: a look at everything can cost
as much memory as is shared, on top of what the program itself needs. Near a limit that would kill
the program, so the look is left out there.
"""

SHARE_OF_ROOM = 4  # what may be copied, at most one part in so many of what is left
LEAST_SHARED = 16 << 20  # below this a copy is lost among what allocators do
CGROUPS = "/sys/fs/cgroup"
UNLIMITED = 1 << 60


def shortage():
    shared = rolled_up(b"Shared_Dirty:")
    if shared is None or shared < LEAST_SHARED:
        return None
    room = room_left()
    if room is None or shared * SHARE_OF_ROOM <= room:
        return None
    return "%d MiB are shared with forked processes, and %d MiB are left" % (
        shared >> 20,
        room >> 20,
    )


def rolled_up(label):
    """Bytes behind a label of /proc/self/smaps_rollup; None where it cannot be told."""
    return _number_behind("/proc/self/smaps_rollup", label)


def room_left():
    """Until the machine's memory or the cgroup's limit is used up; None where nobody can tell."""
    rooms = [_number_behind("/proc/meminfo", b"MemAvailable:")]
    for folder, limit_name, used_name in _groups():
        limit, used = _number("%s/%s" % (folder, limit_name)), _number(folder + "/" + used_name)
        if limit is not None and used is not None and limit < UNLIMITED:
            # Cached files count as used, and go when memory is needed.
            cached = _number_behind(folder + "/memory.stat", b"inactive_file", 1) or 0
            rooms.append(max(limit - used + cached, 0))
    known = [room for room in rooms if room is not None]
    return min(known) if known else None


def _groups():
    try:
        with open("/proc/self/cgroup", "rb") as listed:
            lines = listed.read(65536).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for below in {path.rstrip("/"), ""}:  # in a container the path is that of the host
            if controllers == "":
                found.append((CGROUPS + below, "memory.max", "memory.current"))
            elif "memory" in controllers.split(","):
                place = CGROUPS + "/memory" + below
                found.append((place, "memory.limit_in_bytes", "memory.usage_in_bytes"))
    return found


def _number_behind(path, label, unit=1024):
    try:
        with open(path, "rb") as file:
            for line in file:
                if line.startswith(label):
                    return int(line.split()[1]) * unit
    except (OSError, ValueError, IndexError):
        pass
    return None


def _number(path):
    try:
        with open(path, "rb") as file:
            return int(file.read(64))
    except (OSError, ValueError):  # "max"
        return None
