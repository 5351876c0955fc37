"""A small real training that dies mid-epoch: its mining kernel brings a second OpenMP runtime.

The features are made by one native kernel, the hard negatives by another, each built against an
OpenMP runtime of its own, as happens when two packages carry one each. Nothing goes wrong until
mining begins.
"""

import argparse
import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

LLVM = "/usr/lib/x86_64-linux-gnu/libomp.so.5"
KERNEL = """
typedef struct { int reserved, flags, more, size; const char *where; } place;
extern void __kmpc_fork_call(place *, int, void *, ...);
static place here = {0, 2, 0, 0, ";kernel.c;NAME;1;1;;"};
static void part(int *thread, int *team, float *x, long *n) {
    if (*thread == 0) for (long i = 0; i < *n; i++) x[i] = x[i] / (1.0f + x[i] * x[i]);
}
void NAME(float *x, long n) { __kmpc_fork_call(&here, 2, part, x, &n); }
"""


def build(name, runtime, folder):
    """Compile a kernel against this OpenMP runtime."""
    source = folder / f"{name}.c"
    source.write_text(KERNEL.replace("NAME", name))
    library = folder / f"lib{name}.so"
    options = ["-O2", "-shared", "-fPIC", f"-Wl,-rpath,{runtime.parent}"]
    subprocess.run(["cc", *options, "-o", library, source, runtime], check=True)
    return library


def apply(kernel, tensor):
    kernel(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_long(tensor.numel()))
    return tensor


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--mine-from", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rerail-demo-"))
    intel, llvm = Path(sys.prefix) / "lib" / "libiomp5.so", Path(LLVM)
    for runtime, package in ((intel, "intel-openmp from PyPI"), (llvm, "libomp5 from Debian")):
        if not runtime.exists():
            sys.exit(f"{runtime} is not there: install {package} (make setup does)")
    features = ctypes.CDLL(str(build("squash", intel, folder))).squash
    mining = build("mine", llvm, folder)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 128))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    mine = None
    progress = tqdm(range(args.steps), desc="Training")
    for step in progress:
        x = apply(features, torch.randn(args.batch_size, 256))
        z = nn.functional.normalize(net(x + 0.1 * torch.randn_like(x)), dim=-1)
        if step >= args.mine_from:
            mine = mine or ctypes.CDLL(str(mining)).mine
            apply(mine, z.detach().clone())
        loss = nn.functional.cross_entropy(z @ z.T / 0.07, torch.arange(len(z)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.set_postfix(loss=f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
