"""lowlight with a real fault: study_faulty_lowlight.py FAULTS train ...

FAULTS is a folder; the file FAULTS/<RERAIL_CELL> names what befalls that cell. What ends in `!`
befalls every attempt, anything else only the first.
"""

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 0x40000


def take_fault(folder: str) -> tuple[str, str]:
    path = Path(folder) / os.environ["RERAIL_CELL"]
    if not path.exists():
        return "", ""
    name, _, detail = path.read_text().strip().partition(" ")
    if not name.endswith("!"):
        path.unlink()
    return name.rstrip("!"), detail


def crash_in_a_worker() -> None:
    """A null pointer is read in the process that makes the batches."""
    from lowlight.pairs import TrainingPairs
    from torch.utils.data import get_worker_info

    original = TrainingPairs.__getitem__

    def getitem(self, place):
        if get_worker_info() is not None and place[0] >= 3:
            ctypes.string_at(0)
        return original(self, place)

    TrainingPairs.__getitem__ = getitem


def shrink_shared_memory() -> None:
    """A /dev/shm of 64 KiB, seen by this process and its children alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    for result in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None),
        libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=64k"),
    ):
        if result != 0:
            raise OSError(ctypes.get_errno(), "cannot make a small /dev/shm")


def run_out_of_memory(group: str) -> None:
    """In a cgroup that is too small, like a job that asked for too little."""
    from lowlight.train import Trainer

    original = Trainer.take_step

    def take_step(self, dark, bright):
        if self.step == 2:
            Path(group, "cgroup.procs").write_text(str(os.getpid()))
            self.kept = [bytearray(8 << 20) for _ in range(1000)]
        return original(self, dark, bright)

    Trainer.take_step = take_step


name, detail = take_fault(sys.argv[1])
if name == "worker-segfault":
    crash_in_a_worker()
elif name == "small-shm":
    shrink_shared_memory()
elif name == "out-of-memory":
    run_out_of_memory(detail)

from lowlight.cli import main  # noqa: E402

sys.argv[1:2] = []
main()
