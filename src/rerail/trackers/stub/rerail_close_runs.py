"""Closes runs in the trackers of a program that died: run by the interpreter that it ran in.

Comes in: on standard input one JSON document: what to say, and which runs. Goes out: one line of
JSON for each run, with `did`, what was done, or `why`, why nothing was. Promises: CPython 3.8 on,
nothing but the standard library and the tracker's own package; standard output holds those lines
alone; one run that fails does not keep the others open; it ends by itself after `seconds`.
"""

import json
import os
import signal
import sys

CLOSERS = {"mlflow": "rerail_close_mlflow", "wandb": "rerail_close_wandb"}


def main(tracker, package, agent_stub, seconds):
    # Whoever started this bounds its time too, and may be killed before.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.alarm(int(seconds))
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):  # what the libraries print is nobody's concern
        os.dup2(nothing, descriptor)
    closer = own_module(CLOSERS[tracker], agent_stub)
    if package and package not in sys.path:
        sys.path.append(package)
    try:
        __import__(closer.PACKAGE)  # takes a second or two, while the report is made
    except BaseException:
        pass  # told below, of each run
    asked = json.loads(sys.stdin.buffer.read())
    for run in asked["runs"]:
        answer = {"tracker": run["tracker"], "run": run["run"]}
        try:
            answer["did"] = closer.close(run, asked)
        except BaseException as error:
            answer["why"] = in_words(error)
        os.write(answers, json.dumps(answer).encode("ascii") + b"\n")
    os._exit(0)  # an atexit of a tracker may wait for a server


def own_module(name, agent_stub):
    """A file beside this one, with those of the agent for it; none of these folders stays."""
    folders = [os.path.dirname(os.path.abspath(__file__)), agent_stub]
    before = list(sys.path)
    sys.path[:0] = folders
    try:
        return __import__(name)
    finally:
        sys.path[:] = [path for path in before if path not in folders]


def in_words(error):
    from rerail_not_done import NotDone

    if isinstance(error, NotDone):
        return str(error)
    first = (str(error).strip().splitlines() or [""])[0]
    return ("%s: %s" % (type(error).__name__, first))[:300].rstrip(": ")


if __name__ == "__main__":
    main(*sys.argv[1:5])
