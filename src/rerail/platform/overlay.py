"""Lets a process write to folders so that nothing of it reaches them: overlay file systems.

In: folders, a folder for what is written, and folders that stay really written. Out: this process
and its children see the folders as they are, and what they write goes elsewhere. Promises: `enter`
works completely or raises OSError, and other processes notice nothing. Linux only. What was written
is read by `layers`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rerail.platform.layers import note_places, outermost, remove_layers, work_of, written_of
from rerail.platform.own_process import own_process

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 1 << 18
_READ_ONLY, _REMOUNT = 0x1, 0x20
_DETACH = 2  # MNT_DETACH
_PROBE_SECONDS = 20.0
_MOST_MOUNTS = 64


def enter(folders: Sequence[Path], layers: Path, through: Sequence[Path]) -> None:
    """Put an overlay over each of `folders` that is there; this process must have one thread.

    `layers` gets what is written and must lie outside of `folders`. It becomes the working folder
    of this process. `through` stays as it is: folders, and pipes and sockets, which an overlay
    would cut off from whoever has them open outside.
    """
    refused = _enter(folders, layers, through)
    for folder, why in refused.items():
        raise OSError(f"{folder}: {why}")


def refused(folders: Sequence[Path], layers: Path, through: Sequence[Path] = ()) -> dict[Path, str]:
    """Return those that cannot have an overlay whose layers lie there, and why; a process tries it.

    Raises OSError if none can.
    """
    if sys.platform != "linux":
        raise OSError("this system has no overlay file system")
    task = {"folders": [*map(str, folders)], "through": [*map(str, through)]}
    probe = Path(tempfile.mkdtemp(prefix="probe-", dir=layers))
    try:
        done = subprocess.run(
            [*own_process("rerail.platform.overlay"), str(probe), json.dumps(task)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"the attempt took more than {_PROBE_SECONDS:.0f} s") from None
    finally:
        remove_layers(probe)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(words[-1] if words else "the attempt failed")
    return {Path(name): why for name, why in json.loads(done.stdout).items()}


def why_not(folders: Sequence[Path], layers: Path) -> str | None:
    """Return why one of these folders cannot have an overlay here, or None."""
    try:
        return next((f"{name}: {why}" for name, why in refused(folders, layers).items()), None)
    except OSError as error:
        return str(error)


def _enter(folders: Sequence[Path], layers: Path, through: Sequence[Path]) -> dict[Path, str]:
    """Cover as many as possible; return the others and why. Raises OSError if none is possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    kept = [
        each.resolve() for each in through if each.is_dir() or each.is_fifo() or each.is_socket()
    ]
    refused: dict[Path, str] = {}
    groups = {}  # each folder with the file systems that are mounted below it
    points = _mount_points()
    files: list[Path] = []  # mounted below a folder: an overlay would show what is under them
    for folder in outermost(folders):
        below = [p for p in points if p != folder and p.is_relative_to(folder) and p.is_dir()]
        below = [p for p in below if not any(p.is_relative_to(each) for each in kept)]
        if not folder.is_dir():
            continue  # it is gone, and so is what could be written to
        if folder == Path("/"):
            refused[folder] = "the whole file tree cannot be covered"
        elif len(below) > _MOST_MOUNTS:
            refused[folder] = f"{len(below)} file systems are mounted below it"
        elif any(folder.is_relative_to(each) for each in kept):
            refused[folder] = "the store of the runs is there or above"
        else:
            groups[folder] = [folder, *sorted(below)]
            files += [p for p in points if p.is_relative_to(folder) and p.is_file()]
    _check(libc.unshare(_NEW_MOUNTS | (_NEW_USERS if uid else 0)), "unshare")
    if uid:
        _map_ids(0, uid, 0, gid)
    _mount(libc, "none", "/", None, _RECURSIVE | _PRIVATE, None)
    places: list[Path | None] = []  # None: a number that was used in vain
    # The kernel refuses descriptors that were opened in another mount namespace.
    with _opened(kept) as kept_at, _opened(files[:_MOST_MOUNTS]) as files_at:
        os.chdir(layers)
        for folder, group in groups.items():
            first = len(places)
            try:
                with _opened(group) as lowers:
                    for place, descriptor in lowers.items():
                        places.append(place)
                        _cover(libc, place, descriptor, len(places) - 1, is_root=not uid)
                _try_to_write(folder, written_of(layers, first))
            except OSError as error:
                refused[folder] = error.strerror or str(error)
                if uid and len(group) > 1 and error.errno == errno.EINVAL:
                    refused[folder] = f"{group[1]} is mounted in it, so only root can cover it"
                for at in range(len(places) - 1, first - 1, -1):
                    libc.umount2(os.fsencode(places[at] or ""), _DETACH)
                    places[at] = None
        for place, descriptor in kept_at.items():
            source = f"/proc/self/fd/{descriptor}"
            _mount(libc, source, str(place), None, _BIND | _RECURSIVE, None)
        for place, descriptor in files_at.items():
            _mount(libc, f"/proc/self/fd/{descriptor}", str(place), None, _BIND, None)
            _mount(libc, "none", str(place), None, _BIND | _REMOUNT | _READ_ONLY, None)
    note_places(layers, places)
    if uid:  # be oneself again: a program that asks who it is gets the usual answer
        _check(libc.unshare(_NEW_USERS), "unshare")
        _map_ids(uid, 0, gid, 0)
    return refused


def _cover(libc: ctypes.CDLL, place: Path, descriptor: int, number: int, *, is_root: bool) -> None:
    """Mount the overlay over `place`; the working folder is that of the layers."""
    here = Path()
    upper, work = written_of(here, number), work_of(here, number)
    upper.mkdir(mode=0o700)
    work.mkdir(mode=0o700)
    status = os.fstat(descriptor)
    # One that is another user's becomes our own there: it is not to become writable by that.
    mode = status.st_mode if os.access(place, os.W_OK) else status.st_mode & ~0o222
    upper.chmod(mode & 0o7777)
    is_root = is_root and _keeps_marks(upper, "trusted")
    if not is_root and not _keeps_marks(upper, "user"):
        raise OSError("the file system of the layers keeps no extended attributes")
    if is_root:
        os.chown(upper, status.st_uid, status.st_gid)
    os.utime(upper, ns=(status.st_atime_ns, status.st_mtime_ns))
    # Relative names: a comma or colon in the path of the layers would end the option. Without
    # redirect_dir a folder that was there cannot be renamed; the kernel lets only root have it.
    options = f"lowerdir=/proc/self/fd/{descriptor},upperdir={upper},workdir={work}"
    options += ",redirect_dir=on" if is_root else ",userxattr"
    _mount(libc, "overlay", str(place), "overlay", 0, options)
    with suppress(OSError):  # the kernel's own folder, in which it copies files: to be measured
        (work / "work").chmod(0o700)


def _keeps_marks(folder: Path, kind: str) -> bool:
    """Return whether the kernel can mark there what was deleted and made anew."""
    try:
        os.setxattr(folder, f"{kind}.rerail", b"")
        os.removexattr(folder, f"{kind}.rerail")
    except OSError:
        return False
    return True


def _try_to_write(folder: Path, upper: Path) -> None:
    """Raise OSError unless what is written there arrives in the layer; its time stays the same."""
    before = folder.stat()
    descriptor, name = tempfile.mkstemp(prefix=".rerail-", dir=folder)
    os.close(descriptor)
    is_covered = (upper / Path(name).name).exists()
    Path(name).unlink()
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    if not is_covered:
        raise OSError("what is written there does not arrive in the overlay")


@contextmanager
def _opened(folders: Sequence[Path]) -> Iterator[Mapping[Path, int]]:
    found: dict[Path, int] = {}
    try:
        for folder in folders:
            found[folder] = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        yield found
    finally:
        for descriptor in found.values():
            os.close(descriptor)


def _mount_points() -> list[Path]:
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    return sorted({Path(os.fsdecode(_unescaped(line.split(" ")[4]))) for line in lines})


def _unescaped(text: str) -> bytes:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return os.fsencode(text)


def _map_ids(uid: int, outer_uid: int, gid: int, outer_gid: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


def _mount(
    libc: ctypes.CDLL, source: str, target: str, kind: str | None, flags: int, options: str | None
) -> None:
    words = [os.fsencode(each) if each is not None else None for each in (source, target, kind)]
    data = os.fsencode(options) if options is not None else None
    _check(libc.mount(*words, ctypes.c_ulong(flags), data), f"mount over {target}")


def _check(answer: int, what: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> str | None:
    """Enter overlays of the folders that the arguments name; return what went wrong, or None."""
    asked = json.loads(sys.argv[2])
    try:
        found = _enter(
            [Path(each) for each in asked["folders"]],
            Path(sys.argv[1]),
            [Path(each) for each in asked["through"]],
        )
    except OSError as problem:
        return str(problem)
    print(json.dumps({str(folder): why for folder, why in found.items()}))
    return None
