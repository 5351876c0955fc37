"""The black box of a real training, and that the training does not notice."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from agent_runs import PROGRAMS, Runner, library_functions

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

TRAIN = str(PROGRAMS / "agent_train.py")


def test_what_the_box_knows_of_a_training(run: Runner) -> None:
    ended = run([TRAIN, "--workers", "0", "--accumulate", "2"])
    box = ended.box

    assert ended.status == 0, ended.stderr
    assert box.notes == []
    assert (box.optimizer_steps, box.backward_calls, box.backward_per_step) == (15, 30, 2.0)
    assert (box.batches, box.epoch, box.batch_shapes) == (30, 2, "[16x8, 16x1]")
    assert box.progress_text == "epoch 2 10/10" and box.progress_total == 10
    losses = [float.fromhex(line.split()[1]) for line in ended.stdout.splitlines()]
    assert box.loss in losses  # read every five milliseconds at most: not always one of the last
    assert [point.step for point in box.history] == list(range(1, 16))
    assert {point.loss for point in box.history} <= {*losses, None}
    assert box.history[0].loss is not None
    times = [point.t_seconds for point in box.history]
    assert times == sorted(times)
    assert box.first_nonfinite_step is None
    loader = box.loaders[0]
    assert (loader.workers, loader.batch_size, loader.start_method) == (0, 16, None)
    files = {(Path(f.path).name, f.loader): f for f in box.files}
    assert files["x.npy", "numpy.load"].is_mapped
    assert not files["x.npz", "numpy.load"].is_mapped
    assert files["x.npz", "numpy.load"].is_compressed
    assert files["x.raw", "numpy.memmap"].is_mapped
    assert not files["model.pt", "torch.load"].is_mapped
    assert all(file.size_bytes > 0 for file in box.files)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_results_are_bit_identical(run: Runner, method: str) -> None:
    few = ["2", "--epochs", "2"] if method == "fork" else ["1", "--epochs", "1"]
    arguments = [TRAIN, "--method", method, "--workers", *few]
    bare, ended = (run(arguments, agent=agent) for agent in (False, True))

    assert ended.status == bare.status == 0, ended.stderr
    assert ended.stdout == bare.stdout
    workers = [box for box in ended.boxes if box.pid != ended.box.pid]
    assert workers and all(box.said_goodbye and box.handler_installed for box in workers)
    assert ended.box.loaders[0].start_method == method
    if method == "fork":
        assert all(box.fork_parent_had_threads is not None for box in workers)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_that_crashes(run: Runner, faults: str, method: str) -> None:
    """torch's workers install their own handlers over ours, and print their own sentence."""
    ended = run([TRAIN, "--workers", "1", "--method", method, "--fault", faults])

    assert ended.status == 1
    assert "ERROR: Unexpected segmentation fault encountered in worker." in ended.stderr
    if method == "fork":
        bare = run([TRAIN, "--workers", "1", "--fault", faults], agent=False)
        assert bare.status == ended.status
        # How many batches the parent still takes while its worker dies is a race.
        shorter, longer = sorted((bare.stdout, ended.stdout), key=len)
        assert shorter and longer.startswith(shorter)
    crash = ended.crash
    assert crash.pid != ended.box.pid
    assert crash.signal == "SIGSEGV"
    assert library_functions(crash, faults)[0] == "write_through_null"
    assert "__getitem__" in [frame.function for frame in crash.threads[0].python]
    # Which exception the parent dies of differs from run to run, bare or not.
    assert ended.box.exception_type is not None and ended.box.said_goodbye


def test_loss_that_is_not_finite_and_loss_on_a_device(run: Runner) -> None:
    """No GPU here: the hook for one is put on by hand and must change nothing on the CPU."""
    code = """
import time, torch
w = torch.ones((), requires_grad=True)
optimizer = torch.optim.SGD([w], lr=1.0)
for step in range(6):
    loss = w * (float("nan") if step >= 3 else 1.0)
    loss.backward(); optimizer.step(); time.sleep(0.008)
import rerail_hooks_torch as hooks
x = torch.tensor(2.5)
hooks._hook_item(torch, [id(x)])
print(x.item(), torch.tensor(7).item(), torch.ones(1, 1).item())
try: torch.ones(2).item()
except RuntimeError as error: print("refused")
"""
    ended = run(["-c", code])

    assert ended.stdout.split() == ["2.5", "7", "1.0", "refused"], ended.stderr
    assert ended.box.first_nonfinite_step == 4
    assert [point.loss for point in ended.box.history][3:] == [None, None, None]
    assert ended.box.optimizer_steps == 6
    assert ended.box.loss == 2.5


@pytest.mark.thorough
def test_tracebacks_and_warnings_show_nothing_of_ours(run: Runner, tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("""
import traceback, warnings, torch, numpy
from torch.utils.data import DataLoader, Dataset
class Broken(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): raise IndexError(f"row {i}")
def attempt(f, *a, **k):
    try: f(*a, **k)
    except Exception: traceback.print_exc()
warnings.simplefilter("always")
attempt(torch.ones(3).backward)
attempt(numpy.load, "missing.npy")
attempt(numpy.memmap, "missing.raw")
attempt(torch.load, "missing.pt")
attempt(lambda: list(DataLoader(Broken())))
attempt(lambda: list(DataLoader(Broken(), num_workers=99, prefetch_factor=-1)))
w = torch.ones(2, requires_grad=True)
y = (w * 2).sum()
y.backward()
attempt(y.backward)
""")
    bare, ended = (run([str(script)], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stdout, ended.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert ended.stderr.count("Traceback") >= 6


@pytest.mark.thorough
def test_objects_of_torch_behave_the_same(run: Runner, tmp_path: Path) -> None:
    script = tmp_path / "objects.py"
    script.write_text("""
import copy, inspect, io, pickle, pickletools, torch, numpy, importlib
from torch.utils.data import DataLoader
torch.manual_seed(1)
model = torch.nn.Linear(3, 1); optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(torch.arange(6.0).reshape(2, 3))
def names(f): return [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
print(names(torch.autograd.backward), names(torch.load), names(torch.save), names(numpy.load))
print(pickle.loads(pickle.dumps(torch.autograd.backward)) is torch.autograd.backward)
print(pickle.loads(pickle.dumps(numpy.load)) is numpy.load, numpy.load.__module__)
def pickled(o):
    # A tensor's bytes hold the address of its storage, and a frame their length.
    found = [(op.name, arg) for op, arg, at in pickletools.genops(pickle.dumps(o))]
    return [(op, arg) for op, arg in found if op != "FRAME" and not isinstance(arg, bytes)]
copied = copy.deepcopy(optimizer); print(pickled(optimizer), pickled(loader))
print(optimizer._optimizer_step_post_hooks, sorted(vars(copied)) == sorted(vars(optimizer)))
for batch in loader:
    optimizer.zero_grad(); loss = model(batch).pow(2).sum(); loss.backward(); optimizer.step()
    print(loss.item().hex())
it = iter(loader); print(next(it).tolist(), len(it), [b.tolist() for b in it])
buffer = io.BytesIO(); torch.save(model, buffer); buffer.seek(0)
print(torch.load(buffer, weights_only=False))
a = numpy.memmap("m.raw", dtype="f4", mode="w+", shape=(4,)); a[:] = 3
print(type(pickle.loads(pickle.dumps(a))), type(a[1:]), a.sum(), isinstance(a, numpy.memmap))
class Mine(numpy.memmap): pass
print(Mine("m.raw", dtype="f4", mode="r").mean())
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        seen.append(f.__name__); return f(*args, **(kwargs or {}))
class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        seen.append(str(f)); return f(*args, **(kwargs or {}))
for mode in (Mode, Dispatch):
    seen = []
    with mode():
        model(batch).sum().backward(); optimizer.step()
    print(seen)
with torch.profiler.profile() as profile:
    model(batch).sum().backward(); optimizer.step()
print(sorted({e.key: e.count for e in profile.key_averages()}.items()))
print(torch.func.grad(lambda w: (w ** 2).sum())(torch.ones(3)))
print(torch.multiprocessing.get_start_method(allow_none=True))
""")
    bare, ended = (run([str(script)], agent=agent) for agent in (False, True))

    assert ended.status == bare.status == 0, ended.stderr
    assert ended.stdout == bare.stdout
    assert _without_stamps(ended.stderr) == _without_stamps(bare.stderr)
    assert ended.box.notes == []


def _without_stamps(text: str) -> list[str]:
    """The profiler's own lines carry the time and the process."""
    lines = [line for line in text.splitlines() if not line.startswith("USDT:")]
    return [re.sub(r"\d+", "0", line) for line in lines]


@pytest.mark.slow
def test_compiled_training(run: Runner, tmp_path: Path) -> None:
    """torch.compile traces the optimizer's step with our hooks in it: no break, same result."""
    script = tmp_path / "compiled.py"
    script.write_text("""
import torch
torch.manual_seed(0)
torch._dynamo.config.error_on_recompile = False
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
backend = "eager"
step = torch.compile(optimizer.step, backend=backend)
forward = torch.compile(model, fullgraph=True, backend=backend)
for _ in range(5):
    loss = forward(x).pow(2).mean(); loss.backward(); step(); optimizer.zero_grad()
    print(loss.item().hex())
@torch.compile(backend=backend)
def whole(x):
    loss = model(x).pow(2).mean(); loss.backward(); optimizer.step(); optimizer.zero_grad()
    return loss
for _ in range(3): print(whole(x).item().hex())
counters = torch._dynamo.utils.counters
print(counters["stats"], sum(counters["graph_break"].values()), sorted(counters["graph_break"]))
""")
    bare, ended = (run([str(script)], agent=agent, seconds=300) for agent in (False, True))

    assert bare.status == 0, bare.stderr
    assert ended.status == 0, ended.stderr
    assert ended.stdout == bare.stdout


def test_crash_inside_torch(run: Runner) -> None:
    """The library that faulted is named, and what the program was doing."""
    code = """
import torch
storage = torch.empty(4)
bad = torch.empty(0).set_(storage.untyped_storage(), 0, (1,))
import ctypes
class Fake: pass
w = torch.ones(3, requires_grad=True)
class Crash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): ctypes.memset(8, 0, 8); return g
Crash.apply(w).sum().backward()
"""
    ended = run(["-c", code])

    assert ended.status == -signal.SIGSEGV
    assert ended.box.phase == "backward"
    assert ended.box.loss == 3.0
    libraries = [frame.library or "" for frame in ended.crash.threads[0].native]
    assert any("libtorch" in library for library in libraries)


@pytest.mark.thorough
def test_collectives(run: Runner, tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text("""
import os, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(number, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=number, world_size=2)
    x = torch.ones(2) * (number + 1)
    dist.all_reduce(x); dist.broadcast(x, 0)
    work = dist.all_reduce(x, async_op=True); work.wait()
    print(x.tolist(), flush=True)
    if number == 1: os.kill(os.getpid(), 9)   # the other waits in a collective
    try: dist.barrier()
    except Exception: os.kill(os.getpid(), 9)
if __name__ == "__main__":
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0)); port = str(s.getsockname()[1])
    processes = [mp.get_context("spawn").Process(target=rank, args=(n, port)) for n in (0, 1)]
    [p.start() for p in processes]; [p.join() for p in processes]
""")
    ended = run([str(script)], seconds=120)

    assert ended.stdout.count("[6.0, 6.0]") == 2, ended.stderr
    boxes = {box.rank: box for box in ended.boxes if box.rank is not None}
    assert sorted(boxes) == [0, 1]
    assert boxes[0].world_size == 2
    assert boxes[1].collective is None
    assert not any("is off" in note for box in ended.boxes for note in box.notes)


def test_faiss_phase_and_files(run: Runner) -> None:
    pytest.importorskip("faiss")
    code = """
import os, faiss, numpy
numpy.random.seed(0)
index = faiss.IndexFlatIP(8)
index.add(numpy.random.rand(50, 8).astype("f4"))
faiss.write_index(index, "i.faiss"); again = faiss.read_index("i.faiss")
d, i = again.search(numpy.random.rand(2, 8).astype("f4"), 3)
print(i.tolist(), index.search.__name__)
try: index.search(numpy.random.rand(2, 9).astype("f4"), 3)
except AssertionError: print("refused")
"""
    bare, ended = (run(["-c", code], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stdout, ended.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert [file.loader for file in ended.box.files] == ["faiss.read_index"]
    assert ended.box.notes == []


def test_death_while_searching_says_mining(run: Runner) -> None:
    pytest.importorskip("faiss")
    code = """
import faiss, numpy, os, threading, time
index = faiss.IndexFlatL2(64)
index.add(numpy.random.rand(200000, 64).astype("f4"))
begun = threading.Event()
def kill():
    import rerail_box, rerail_layout
    word, mining = rerail_layout.WORD["phase"], rerail_layout.PHASES.index("mining")
    while rerail_box.numbers[word] != mining: time.sleep(0.001)
    os.kill(os.getpid(), 9)
threading.Thread(target=kill, daemon=True).start()
while True: index.search(numpy.random.rand(500, 64).astype("f4"), 10)
"""
    ended = run(["-c", code])

    assert ended.status == -signal.SIGKILL
    assert ended.box.phase == "mining"


def test_pandas_behaves_the_same(run: Runner) -> None:
    pytest.importorskip("pandas")
    code = """
import pandas, numpy, io
frame = pandas.DataFrame({"a": range(5), "b": numpy.linspace(0, 1, 5)})
print(frame.groupby(frame.a % 2).mean().to_csv(), pandas.read_csv(io.StringIO(frame.to_csv())))
numpy.savez("t.npz", a=frame.to_numpy())
with numpy.load("t.npz") as archive: print(archive.files, archive["a"].sum())
"""
    bare, ended = (run(["-c", code], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stdout, ended.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert ended.box.files[0].loader == "numpy.load"
