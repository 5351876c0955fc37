"""Counts to --steps, leaving checkpoints (zips with the count in them); dies on the way.

--dies-at N [N ...]: dies at these counts; with --each-once only the first time (marks in --out).
--how: segv, exit, shapes, mismatch (what a program says of a checkpoint that does not fit), wait.
"""

import argparse
import ctypes
import json
import os
import sys
import time
import zipfile

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--every", type=int, default=1)
parser.add_argument("--dies-at", type=int, nargs="*", default=[])
parser.add_argument("--each-once", action="store_true")
parser.add_argument("--how", default="segv")
parser.add_argument("--refuses", default="")
parser.add_argument("--resume")
a = parser.parse_args()
os.makedirs(a.out, exist_ok=True)


def die(step):
    mark = os.path.join(a.out, f"died-{step}")
    if a.each_once and os.path.exists(mark):
        return
    open(mark, "w").close()
    if a.how == "exit":
        sys.exit(7)
    if a.how == "shapes":
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x8 and 16x1)")
    if a.how == "wait":
        print("waiting", flush=True)
        time.sleep(60)
    ctypes.string_at(0)


begin = 0
if a.resume:
    if a.refuses and a.refuses in a.resume:
        raise RuntimeError(
            "Error(s) in loading state_dict for Net:\n"
            "\tsize mismatch for fc.weight: copying a param with shape torch.Size([4, 8]) from"
            " checkpoint, the shape in current model is torch.Size([4, 16])."
        )
    with zipfile.ZipFile(a.resume) as archive:
        begin = json.loads(archive.read("state"))["step"]
    print("resumed from", a.resume, flush=True)
for step in range(begin + 1, a.steps + 1):
    if step in a.dies_at:
        die(step)
    print(f"step {step}/{a.steps} loss {1.0 / step:.4f}", flush=True)
    if step % a.every:
        continue
    path = os.path.join(a.out, f"step-{step}.ckpt")
    with zipfile.ZipFile(path + ".part", "w") as archive:
        archive.writestr("state", json.dumps({"step": step}))
    os.replace(path + ".part", path)
print("counted", flush=True)
