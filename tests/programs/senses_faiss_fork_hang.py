"""A FAISS search in a forked child, after the parent has used OpenMP: the child hangs for good.

Prints the child's pid once it is in the search. argv[1]: a FIFO to say so on.
"""

import os
import sys

import faiss
import numpy as np
import torch

vectors = np.random.default_rng(0).random((20000, 64), dtype=np.float32)
index = faiss.IndexFlatIP(64)
index.add(vectors)
torch.set_num_threads(2)
torch.randn(2000, 2000) @ torch.randn(2000, 2000)
index.search(vectors[:512], 10)


def search_in_the_child():
    with open(sys.argv[1], "w") as ready:
        ready.write(f"{os.getpid()}\n")
    index.search(vectors[:512], 10)


child = os.fork()
if child == 0:
    search_in_the_child()
    os._exit(0)
os.waitpid(child, 0)
