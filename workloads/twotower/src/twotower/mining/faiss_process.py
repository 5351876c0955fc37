"""FAISS in a process of its own, so that its OpenMP runtime and torch's never meet.

The child is started afresh (not forked: a FAISS search in a forked child of a process that used
OpenMP hangs), maps the bank itself, builds its index, and answers on pipes. Requests and answers
are a header of two integers and raw values; nothing is pickled. The child ends when its standard
input does, so it cannot outlive the training.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from twotower.errors import TwotowerError
from twotower.faiss_server import HEADER, read_exactly


class FaissProcessMiner:
    def __init__(self, bank_path: Path, index: str = "flat", threads: int = 0) -> None:
        self._command = [
            *(sys.executable, "-m", "twotower.faiss_server"),
            *(str(bank_path), index, str(threads)),
        ]
        self._child: subprocess.Popen[bytes] | None = None

    def search(self, q_QD: Tensor, k: int) -> Tensor:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        requests, answers = self._child.stdin, self._child.stdout
        assert requests is not None and answers is not None
        try:
            requests.write(HEADER.pack(len(q_QD), k))
            requests.write(q_QD.numpy().tobytes())
            requests.flush()
            rows, columns = HEADER.unpack(read_exactly(answers, HEADER.size))
            ids = np.frombuffer(read_exactly(answers, rows * columns * 8), np.int64)
        except (EOFError, BrokenPipeError):
            status = self._child.wait()
            raise TwotowerError(
                f"the FAISS process ended with status {status} (its last words are above);\n"
                "--miner exact needs no FAISS and finds the same."
            ) from None
        return torch.from_numpy(ids.reshape(rows, columns).copy())

    def close(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.wait()
            self._child = None
