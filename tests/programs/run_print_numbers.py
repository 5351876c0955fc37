"""Say that it is up, wait for a line, print so many numbers, end with this exit code."""

import os
import sys

os.write(1, b"up\n")
sys.stdin.readline()
for number in range(int(sys.argv[1])):
    os.write(1, b"%d\n" % number)
sys.exit(int(sys.argv[2]))
