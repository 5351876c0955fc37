"""What is seen of batches and losses, whether the library looks itself or leaves it to the stub."""

from __future__ import annotations

import pytest
from agent_runs import Runner

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

STUB_ALONE = """
import sys
sys.modules["rerail_native"].use_torch = lambda torch: None
"""

# Losses and batches are looked at once in five milliseconds at most, so each waits for its turn.
SEEN = """
import os, sys, time, torch
from torch.utils.data import DataLoader
box, layout = sys.modules["rerail_box"], sys.modules["rerail_layout"]

def text(name):
    at, size = layout.TEXT[name]
    length = int.from_bytes(box.octets[at:at + 2], "little")
    return bytes(box.octets[at + 2:at + 2 + length]).decode()

def take(batch):
    time.sleep(0.006)
    next(iter(DataLoader([batch], batch_size=None)))
    print(text("batch_shapes"), "|", layout.PHASES[box.numbers[layout.WORD["phase"]]])

x, y = torch.ones(2, 3), torch.ones(4)
class Mine(dict): pass
class Part(torch.Tensor): pass
for batch in (
    x, [x, y], [x, y], (x, x), [x], {"a": x, "b": [y, 1]}, {"a": x, "c": [y, 1]}, Mine(a=x),
    [x] * 9, [[[[x]]]], torch.ones(()), 7, "text", [None, 1.5, "t", 2], {1: x}, {"1": y},
    torch.nn.Parameter(y), x.as_subclass(Part), [{1}, y], [], {},
): take(batch)
with torch.no_grad(): take(x)
take(x)
with torch.device("cpu"): take(y)
sys.stdout.flush()
if os.fork() == 0:
    take(y)
    sys.stdout.flush()
    os._exit(0)
os.wait()

def lose(backward):
    box.floats[layout.WORD["loss"]] = 0.0
    time.sleep(0.006)
    try: backward()
    except RuntimeError as error: print(str(error))
    print(box.floats[layout.WORD["loss"]])

w = torch.ones((), requires_grad=True)
v = torch.ones(2, requires_grad=True)
backward = torch.autograd.backward
lose(lambda: (w * 2).backward())
lose(lambda: backward([w * 3]))
lose(lambda: backward(tensors=w * 4))
lose(lambda: (v * 5).backward(torch.ones(2)))
lose(lambda: (w * 6).backward(torch.ones(())))
lose(lambda: (v[:1] * 7).backward())
lose(lambda: (w.double() * 8.5).backward())
lose(lambda: (w.half() * 9).backward())
lose(lambda: (w * 1).as_subclass(Part).backward())
lose(lambda: (v * 2).backward())
lose(lambda: (w * 11).backward())
"""


@pytest.mark.thorough
def test_the_library_and_the_stub_see_the_same(run: Runner) -> None:
    by_library = run(["-c", SEEN], seconds=120)
    by_stub = run(["-c", STUB_ALONE + SEEN], seconds=120)

    lines = by_library.stdout.splitlines()
    assert lines[:8] == [
        *("2x3 | forward", "[2x3, 4] | forward", "[2x3, 4] | forward", "[2x3, 2x3] | forward"),
        *("[2x3] | forward", "{a: 2x3, b: [4, int]} | forward"),
        *("{a: 2x3, c: [4, int]} | forward", "{a: 2x3} | forward"),
    ], by_library.stderr
    assert lines[21:24] == ["2x3 | validate", "2x3 | forward", "4 | forward"]
    assert lines[25:] == [
        *("2.0", "3.0", "4.0", "0.0", "6.0", "7.0", "8.5", "9.0", "0.0"),
        *("grad can be implicitly created only for scalar outputs", "0.0", "11.0"),
    ]
    assert by_stub.stdout.splitlines() == lines, by_stub.stderr
    assert [box.notes for box in (*by_library.boxes, *by_stub.boxes)] == [[], [], [], []]
    for ended in (by_library, by_stub):
        child = next(box for box in ended.boxes if box.pid != ended.box.pid)
        assert child.batch_shapes == "4"  # in its own box, although its parent had seen it too
