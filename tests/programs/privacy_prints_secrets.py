"""Prints what a file says, whole and in pieces, then dies with a secret in hand.

argv[1]: JSON with `lines` to print, `pieces` to write one by one, `file` to load, `error` to raise,
`module`: a module whose source line holds a secret, to be called.
"""

import importlib.util
import json
import os
import sys

with open(sys.argv[1]) as file:
    plan = json.load(file)
for line in plan["lines"]:
    print(line, flush=True)
for piece in plan["pieces"]:
    os.write(1, piece.encode())
with open(plan["file"], "w") as file:
    file.write("x")
print("loading", plan["file"], file=sys.stderr, flush=True)
spec = importlib.util.spec_from_file_location("configured", plan["module"])
configured = importlib.util.module_from_spec(spec)
spec.loader.exec_module(configured)
try:
    configured.connect()
except ConnectionError as error:
    raise RuntimeError(plan["error"]) from error
