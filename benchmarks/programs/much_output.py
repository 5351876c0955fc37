"""Prints so many bytes: in lines as a training does, or in large blocks as fast as it can."""

import os
import sys

how, total = sys.argv[1], int(sys.argv[2])
line = "epoch 3 step 123456 loss 0.123456 lr 3.0e-04 grad 1.234567 data 0.012 s step 0.345 s\n"
if how == "lines":
    write = sys.stdout.write
    for _ in range(total // len(line)):
        write(line)
else:
    block = (line * (65536 // len(line) + 1)).encode()[:65536]
    printed = 0
    while printed < total:
        printed += os.write(1, block)
