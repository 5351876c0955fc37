"""Programs that start another program: their names and their options that take a value.

A table and nothing else; `command_line` reads it. A wrapper runs the rest of its command line, a
shell runs a text, a launcher runs a Python script (or with a flag a module or program) many times.
What a wrapper's options take is from its own manual. An option that is not named here is taken for
one without a value.
"""

from __future__ import annotations

from typing import NamedTuple

SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"])
SHELL_WORDS = frozenset(["exec", "command", "builtin"])  # of a shell's language, before a command


class Wrapper(NamedTuple):
    """How the command line of one wrapper is read up to the command that it runs."""

    with_value: dict[str, int]  # option: number of values after it
    positions: int = 0  # words of its own between its options and the command
    verbs: frozenset[str] = frozenset()  # the command comes after one of these: `uv run`
    has_long_short_options: bool = False  # -np is one option, not -n and -p


def _wrapper(
    options: str = "", positions: int = 0, verbs: str = "", *, has_long_short_options: bool = False
) -> Wrapper:
    with_value = {}
    for option in options.split():
        name, _, count = option.partition(":")
        with_value[name] = int(count or 1)
    return Wrapper(with_value, positions, frozenset(verbs.split()), has_long_short_options)


_MPI = _wrapper(
    "-n -np -c --n --np -N -npernode --npernode -npersocket -x -H -host --host -hosts -f"
    " -hostfile --hostfile -machinefile --machinefile -wdir --wdir -wd -path --path --prefix"
    " --map-by --rank-by --bind-to --output --output-filename --timeout -ppn -perhost"
    " -envlist -genvlist --oversubscribe-limit --personality"
    " -mca:2 --mca:2 -gmca:2 --gmca:2 --prtemca:2 --pmixmca:2 -env:2 -genv:2",
    has_long_short_options=True,
)

WRAPPERS = {
    "caffeinate": _wrapper("-t -w"),
    "catchsegv": _wrapper(),
    "choom": _wrapper("-n --adjust"),
    "chrt": _wrapper("-T -P -D --sched-runtime --sched-period --sched-deadline", positions=1),
    "doas": _wrapper("-u -C"),
    "env": _wrapper("-u --unset -C --chdir -a --argv0"),
    "flock": _wrapper("-w --wait --timeout -E --conflict-exit-code", positions=1),
    "ionice": _wrapper("-c --class -n --classdata"),
    "ltrace": _wrapper("-o -e -p -u -n -s"),
    "mpiexec": _MPI,
    "mpirun": _MPI,
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "nsys": _wrapper("-o -t -c -w -s --output --trace --duration --delay", verbs="profile launch"),
    "numactl": _wrapper(
        "-N -m -C -i -p -P --cpunodebind --membind --physcpubind --interleave --preferred"
    ),
    "orterun": _MPI,
    "prlimit": _wrapper(),
    "py-spy": _wrapper("-o -d -r -f --output --duration --rate --format", verbs="record"),
    "setsid": _wrapper(),
    "srun": _wrapper(
        "-A -B -c -C -d -D -e -E -G -i -J -L -m -M -n -N -o -p -q -r -S -t -T -w -x"
        " --account --bcast --chdir --cluster-constraint --clusters --comment --constraint"
        " --container --cores-per-socket --cpu-freq --cpus-per-gpu --cpus-per-task --dependency"
        " --distribution --error --exclude --export --gpu-bind --gpu-freq --gpus --gpus-per-node"
        " --gpus-per-socket --gpus-per-task --gres --hint --input --job-name --jobid"
        " --kill-on-bad-exit --licenses --mail-type --mail-user --mem --mem-bind"
        " --mem-per-cpu --mem-per-gpu --mpi"
        " --network --nice --nodefile --nodelist --nodes --ntasks --ntasks-per-core"
        " --ntasks-per-gpu --ntasks-per-node --ntasks-per-socket --open-mode --output --partition"
        " --priority --qos --relative --reservation --signal --sockets-per-node --switches"
        " --task-epilog --task-prolog --threads --threads-per-core --time --time-min --tmp --wait"
        " --wckey"
    ),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "strace": _wrapper("-o -e -p -s -u -a -b -E -I -O -P -S -X"),
    "sudo": _wrapper("-u -g -h -p -C -D -R -r -t -T -U --user --group --host --chdir"),
    "systemd-run": _wrapper("-p -u -M -H -E --property --unit --slice --uid --gid --setenv"),
    "taskset": _wrapper(positions=1),
    "time": _wrapper("-o -f --output --format"),
    "timeout": _wrapper("-k -s --kill-after --signal", positions=1),
    "unbuffer": _wrapper(),
    "valgrind": _wrapper(),
    "xvfb-run": _wrapper(
        "-e -f -n -p -s -w --error-file --auth-file --server-num --xauth-protocol --server-args"
        " --wait"
    ),
}

# `uv run …`: the environment of a project, or one by name, is put in front first.
PROJECT_TOOLS = {
    "hatch": _wrapper("-e --env", verbs="run"),
    "pdm": _wrapper("-p --project --env-file --venv", verbs="run"),
    "pipenv": _wrapper("--python", verbs="run"),
    "pixi": _wrapper("-e --environment --manifest-path", verbs="run"),
    "poetry": _wrapper("-C --directory -P --project", verbs="run"),
    "rye": _wrapper("--pyproject", verbs="run"),
    "uv": _wrapper(
        "-p --python --with --with-editable --with-requirements --extra --no-extra --group"
        " --no-group --only-group --package --project --directory --env-file --index"
        " --default-index -i --index-url --extra-index-url -f --find-links --config-file"
        " --cache-dir --color --python-platform --link-mode --prerelease --resolution"
        " --exclude-newer -P --upgrade-package -C --config-setting -w",
        verbs="run",
    ),
}
_CONDA = _wrapper("-n --name -p --prefix --cwd", verbs="run")
CONDA_TOOLS = {"conda": _CONDA, "mamba": _CONDA, "micromamba": _CONDA}

# Launchers of ranks in Python. Nearly all of their options take a value: here are those that do
# not, and what `-m` and `--no-python` are called.
LAUNCHERS = frozenset(["torchrun", "accelerate", "deepspeed"])
LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.launch": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
}
_LAUNCHER_FLAGS = (
    "--standalone --use-env --run-path --cpu --multi-gpu --tpu --ipex --debug --quiet -q"
    " --use-deepspeed --use-fsdp --use-megatron-lm --use-xpu --use-mps-device --use-cpu"
    " --use-parallelism-config --enable-cpu-affinity --downcast-bf16 --same-network"
    " --force-multi --no-ssh --no-ssh-check --no-local-rank --save-pid --elastic-training"
    " --bind-cores-to-rank"
)
LAUNCHER_FLAGS = frozenset(_LAUNCHER_FLAGS.split())  # torchrun and accelerate take _ for - too
LAUNCHER_MODULE_FLAGS = frozenset(["-m", "--module"])
LAUNCHER_PROGRAM_FLAGS = frozenset(["--no-python"])

# Launchers of ranks of any program: wrappers too.
MPI_LAUNCHERS = frozenset(["mpirun", "mpiexec", "orterun", "srun"])

# What a launcher calls the number of its ranks on this machine; with - for _, as above.
_MPI_COUNT = frozenset(["-n", "-np", "--np"])
RANK_COUNT_OPTIONS: dict[str, frozenset[str]] = {
    "torchrun": frozenset(["--nproc-per-node"]),
    "accelerate": frozenset(["--num-processes"]),
    "deepspeed": frozenset(["--num-gpus"]),
    "mpirun": _MPI_COUNT,
    "mpiexec": _MPI_COUNT,
    "orterun": _MPI_COUNT,
    "srun": frozenset(["--ntasks-per-node"]),
}
