"""The process that Ray starts in place of a worker: the recorder, and under it the worker.

In: on its command line the store's home, the job's name, `--` and the worker's command. Out: a run
in the store. Promises: whatever fails before the worker was started, an import of our own included,
this process becomes the worker; it ends with the worker's exit code.
"""

import sys

from rerail import bare


def main() -> int:
    home, job, _, *command = sys.argv[1:]
    try:
        bare.arm(["run", "--quiet", "--", *command])
        from rerail.ray.recording import record_worker

        return record_worker(command, home, job)
    except BaseException as error:
        return bare.run(bare.in_one_line(error)) if bare.is_armed() else 1
