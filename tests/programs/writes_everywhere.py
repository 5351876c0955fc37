"""A training that writes as trainings do, and dies at step 5 unless it is called with --safe.

No argument names a folder: ck/, logs/, cache/ and runs.db are in the working folder; the full path
of `results` beside it is as if it stood in the program (RESULTS). Old checkpoints are deleted,
files are written in place and replaced by rename.
"""

import os
import sqlite3
import sys

RESULTS = os.environ["RESULTS"]


def replace(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def look():
    """What it finds is what is there: the files that stand there before each run."""
    assert open("ck/0.pt").read() == "zero"
    assert open(f"{RESULTS}/old.txt").read() == "old"


look()
base = sqlite3.connect("runs.db")
base.execute("create table if not exists t (a)")
for step in range(1, 6 if "--safe" not in sys.argv else 12):
    with open(f"ck/{step}.pt", "w") as file:
        file.write(str(step))
    replace("ck/latest.pt", str(step))
    with open("logs/train.log", "a") as file:
        file.write(f"step {step}\n")
    with open(f"{RESULTS}/{step}.txt", "w") as file:
        file.write(str(step))
    base.execute("insert into t values (?)", (step,))
    base.commit()
    os.makedirs(f"cache/{step}", exist_ok=True)
for old in ("ck/0.pt", f"{RESULTS}/old.txt"):
    os.remove(old)
os.rename("cache/5", "cache/five")
os.chmod("logs", 0o700)
print("loss 0.5", flush=True)
if "--safe" not in sys.argv:
    os.abort()
