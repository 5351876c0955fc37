"""Forbids itself to open files by a seccomp filter, then ends as it is told to."""

import ctypes
import os
import platform
import struct
import sys

OPENING = {"x86_64": (2, 257, 437), "aarch64": (56, 437)}
ACTIONS = {"errno": 0x00050001, "kill": 0x80000000}


def forbid(action):
    numbers = OPENING.get(platform.machine(), ())
    rows = [(0x20, 0, 0, 0)]  # load the number of the system call
    rows += [(0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    rows += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, action)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(rows), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    if not numbers or libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        sys.exit(77)


action, how = ACTIONS[sys.argv[1]], sys.argv[2]
if how == "train":
    import torch

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    print("trained")


if how == "train":
    train(1)
forbid(action)
if how == "train":
    train(40)
elif how == "raise":
    raise RuntimeError("after the filter")
elif how == "fork":
    child = os.fork()
    if child == 0:
        os._exit(5)
    print(os.waitpid(child, 0)[1])
elif how == "crash":
    ctypes.string_at(0)
sys.exit(3)
