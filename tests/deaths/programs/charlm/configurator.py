"""Poor man's configurator: `python train.py config/tiny.py --batch_size=8`, as in many one-file trainers."""
import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    if "=" not in arg:
        print(f"Overriding config with {arg}:")
        with open(arg) as f:
            print(f.read())
        exec(open(arg).read())
    else:
        key, val = arg[2:].split("=", 1)
        if key not in globals():
            raise ValueError(f"Unknown config key: {key}")
        try:
            attempt = literal_eval(val)
        except (SyntaxError, ValueError):
            attempt = val
        assert type(attempt) is type(globals()[key]), f"{key}: {type(attempt)}"
        print(f"Overriding: {key} = {attempt}")
        globals()[key] = attempt
