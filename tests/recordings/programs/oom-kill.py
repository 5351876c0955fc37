"""Each step keeps 8 MiB more, until the memory group is full."""

import time

kept = []
for number in range(1, 1000):
    kept.append(bytearray(b"x") * (8 << 20))
    time.sleep(0.3)
    print("step", number, "loss", round(1 / number, 4), flush=True)
