"""Write so many MiB of random bytes to both streams at once, and their digests into files."""

import hashlib
import os
import sys
import threading


def flood(descriptor, name):
    digest = hashlib.sha256()
    for _ in range(int(sys.argv[1])):
        block = os.urandom(1 << 20)
        digest.update(block)
        left = memoryview(block)
        while left:
            left = left[os.write(descriptor, left) :]
    with open(f"{name}.sha256", "w") as file:
        file.write(digest.hexdigest())


threads = [threading.Thread(target=flood, args=(n, name)) for n, name in ((1, "out"), (2, "err"))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
