"""Is there room for a recorder beside the command?

In: what the kernel says of the limits here. Out: what is lacking, in words, or None. Memory and
processes are shared with the command: without room the kernel kills the recorder before it has
started the command, or refuses the command what the recorder took. Address space is our own, but an
import that fails half-way for lack of it writes a page of its own to standard error.

Nothing is imported, and nothing unreadable is an error: where the kernel does not tell, there is
room.
"""

import os

from rerail.bare import read_small

# What recorder, guardian, canary and the task that looks at the surroundings take, and some;
# measured in docs/design/what-if-rerail-cannot-record.md.
MEMORY_BYTES = 64 << 20
ADDRESS_BYTES = 32 << 20
PROCESSES = 16
_MOUNT = "/sys/fs/cgroup"
_NO_LIMIT_FROM = 1 << 60  # version 1 writes the largest page-aligned number
_FEW_PROCESSES = 8192  # only under a limit as low as this are the user's processes counted


def lacking() -> str | None:
    """What there is too little of to record; None where there is enough."""
    limits = _limits()
    for what, free, needed in (
        ("memory", _free_memory(), MEMORY_BYTES),
        ("address space", _free_address_space(limits), ADDRESS_BYTES),
    ):
        if free is not None and free < needed:
            return (
                f"the limit of {what} leaves {max(free, 0) >> 20} MiB,"
                f" and the recorder needs {needed >> 20} MiB"
            )
    left = _free_processes(limits)
    if left is not None and left < PROCESSES:
        return f"the limit of processes leaves {max(left, 0)}, and the recorder needs {PROCESSES}"
    return None


def _free_memory() -> int | None:
    """The least that any of our control groups leaves; the page cache counts as free."""
    least = None
    for folder, version in _groups("memory"):
        names = ("memory.max", "memory.current", "inactive_file ", "active_file ")
        if version == 1:
            names = (
                *("memory.limit_in_bytes", "memory.usage_in_bytes"),
                *("total_inactive_file ", "total_active_file "),
            )
        limit = _number(f"{folder}/{names[0]}")
        usage = _number(f"{folder}/{names[1]}")
        if limit is None or limit >= _NO_LIMIT_FROM or usage is None:
            continue
        cached = sum(
            int(line.split()[1])
            for line in _text(f"{folder}/memory.stat").splitlines()
            if line.startswith(names[2:])
        )
        least = _lesser(least, limit - usage + cached)
    return least


def _free_address_space(limits: dict[str, int]) -> int | None:
    sizes = _text("/proc/self/statm").split()
    if len(sizes) < 6:
        return None
    least = None
    for name, pages in (("Max address space", sizes[0]), ("Max data size", sizes[5])):
        if name in limits:
            least = _lesser(least, limits[name] - int(pages) * os.sysconf("SC_PAGE_SIZE"))
    return least


def _free_processes(limits: dict[str, int]) -> int | None:
    least = None
    for folder, _ in _groups("pids"):
        limit, current = _number(f"{folder}/pids.max"), _number(f"{folder}/pids.current")
        if limit is not None and current is not None:
            least = _lesser(least, limit - current)
    if os.geteuid() != 0:  # root may go past its own limit
        limit = limits.get("Max processes")
        if limit is not None and limit < _FEW_PROCESSES:
            least = _lesser(least, limit - _own_tasks())
    return least


def _groups(controller: str) -> list[tuple[str, int]]:
    """The folders of our control group and of those above it that are visible; their version."""
    found = []
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            mount, version = f"{_MOUNT}/{controller}", 1
        elif not controllers:
            mount, version = _MOUNT, 2
        else:
            continue
        folder = f"{mount}/{group.strip('/')}".rstrip("/")
        if ".." in group or not os.path.isdir(folder):  # noqa: PTH112
            folder = mount  # a container sees its own group as the root
        while folder.startswith(mount):
            found.append((folder, version))
            folder = folder.rpartition("/")[0]
    return found


def _limits() -> dict[str, int]:
    """The soft limits that are set, by the names that the kernel gives them."""
    found = {}
    for line in _text("/proc/self/limits").splitlines():
        name, soft = line[:26].strip(), line[26:].split()[:1]
        if soft and soft[0].isdigit():
            found[name] = int(soft[0])
    return found


def _own_tasks() -> int:
    """Threads of every process of this user: all of them count."""
    total = 0
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return 0
    for name in names:
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():  # noqa: PTH116
                total += os.stat(f"/proc/{name}/task").st_nlink - 2  # noqa: PTH116
        except OSError:
            continue
    return total


def _lesser(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None  # "max": no limit


def _text(path: str) -> str:
    try:
        return read_small(path)
    except OSError:
        return ""
