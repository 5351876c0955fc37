"""What a command runs behind wrappers, shells and launchers."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.platform.command_line import (
    commands_of,
    inner_at,
    innermost,
    innermost_at,
    launcher_of,
    program_call,
    programs,
    python_call,
    rank_count,
)
from rerail.platform.python_flags import needs_preload
from rerail.platform.wrapper_table import CONDA_TOOLS, LAUNCHERS, PROJECT_TOOLS, WRAPPERS

IN_FRONT = [
    "nice",
    "nice -n 5",
    "nice -5",
    "ionice -c2 -n 7",
    "ionice -c 3",
    "chrt -f 10",
    "chrt --batch 0",
    "env -i A=1 -u B",
    "env -- A=1",
    "A=1 B=2",
    "exec",
    "nohup",
    "setsid -w",
    "stdbuf -oL -e 0",
    "time -f %e",
    "timeout -vk 3 60",
    "timeout --signal=INT 30m",
    "taskset -c 0,2-4",
    "numactl --cpunodebind=0 -m 0",
    "srun -N 2 --ntasks 4 --gres=gpu:1 --cpu-bind=cores",
    "srun --mpi pmix --export ALL",
    "mpirun -np 4 -x PATH --mca btl tcp,self --oversubscribe",
    "mpiexec -n 2 -genv A 1",
    "xvfb-run -a",
    "xvfb-run --server-args screen -a",
    "sudo -E -u someone",
    "strace -f -o trace.txt",
    "flock /tmp/lock",
    "uv run",
    "uv run --with numpy --frozen",
    "uv --project here run --extra gpu --",
    "poetry run",
    "conda run -n training --no-capture-output",
    "nsys profile -o out --force-overwrite=true",
    "timeout 60 nice -n 5 srun -n 1 uv run",
]


@pytest.mark.parametrize("front", IN_FRONT)
def test_the_command_behind_a_wrapper(front: str) -> None:
    words = [*front.split(), "python", "-I", "train.py", "-n", "3"]

    assert words[innermost_at(words) :] == ["python", "-I", "train.py", "-n", "3"]
    assert innermost(words) == ["python", "-I", "train.py", "-n", "3"]
    assert innermost(["sh", "-c", " ".join(words)]) == ["python", "-I", "train.py", "-n", "3"]
    assert needs_preload(words, {"PATH": "/nowhere"}) == ("python -I does not look at PYTHONPATH")
    call = program_call(words)
    assert call is not None
    assert (call.kind, call.target) == ("script", "train.py")
    assert words[call.arguments_at :] == ["-n", "3"]


@pytest.mark.parametrize(
    ("command", "kind", "target", "arguments"),
    [
        ("python train.py --x", "script", "train.py", "--x"),
        ("python3.11 -uX dev -m pkg.train --x", "module", "pkg.train", "--x"),
        ("python -mpkg.train --x", "module", "pkg.train", "--x"),
        ("python -c pass --x", "code", "pass", "--x"),
        ("python - --x", "", "", "--x"),
        ("python", "", "", ""),
        ("uv run train.py --x", "script", "train.py", "--x"),
        ("torchrun --nproc 2 train.py --x", "script", "train.py", "--x"),
        ("torchrun --standalone train.py --x", "script", "train.py", "--x"),
        ("torchrun --a-new-flag train.py --x", "script", "train.py", "--x"),
        ("torchrun --nnodes=1 --nproc_per_node 2 -m pkg.train --x", "module", "pkg.train", "--x"),
        ("torchrun --no_python ./trainer --x", "program", "./trainer", "--x"),
        ("python -m torch.distributed.run --nproc-per-node 2 t.py --x", "script", "t.py", "--x"),
        ("python /site/torch/distributed/launch.py --use_env t.py --x", "script", "t.py", "--x"),
        ("python3 /venv/bin/torchrun --nproc 2 t.py --x", "script", "t.py", "--x"),
        ("srun -n 2 accelerate launch --multi_gpu t.py --x", "script", "t.py", "--x"),
        ("deepspeed --num_gpus 2 --no_ssh t.py --x", "script", "t.py", "--x"),
        ("accelerate config", None, "", ""),
        ("uv pip install numpy", None, "", ""),
        ("trainer lr=1 --x", None, "", ""),
        ("sh run.sh", None, "", ""),
        ("nice", None, "", ""),
    ],
)
def test_the_users_program(command: str, kind: str | None, target: str, arguments: str) -> None:
    words = command.split()
    call = program_call(words)

    if kind is None:
        assert call is None
    else:
        assert call is not None
        assert (call.kind, call.target) == (kind, target)
        assert " ".join(words[call.arguments_at :]) == arguments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd /tmp && exec python train.py | tee log", ["python", "train.py"]),
        ("python a.py; python b.py --x 2>&1 >> 'log file' &", ["python", "b.py", "--x"]),
        ("A=1 python 'my train.py' \\\n  --x", ["python", "my train.py", "--x"]),
        ("echo 'a; b | c' && nice torchrun t.py", ["torchrun", "t.py"]),
        ("echo it's\npython t.py", ["python", "t.py"]),
        ("(cd x; python t.py)", ["python", "t.py"]),
        ("echo hello", ["echo", "hello"]),
        ("", []),
    ],
)
def test_the_text_of_a_shell(text: str, expected: list[str]) -> None:
    assert innermost(["bash", "-euc", text]) == expected


def test_every_program_on_the_way_is_named() -> None:
    words = ["timeout", "60", "srun", "-n", "2", "bash", "-c", "nice python t.py"]

    assert programs(words) == ["timeout", "srun", "bash", "nice", "python"]


KNOWN = [*WRAPPERS, *PROJECT_TOOLS, *CONDA_TOOLS, *LAUNCHERS, "sh", "python", "run", "launch"]
KNOWN += ["-c", "-n", "-S", "--", "-", "-m", "A=1", "60", "t.py", "torch.distributed.run", "'"]
WORDS = st.lists(st.sampled_from(KNOWN) | st.text(max_size=6), max_size=8)


@given(WORDS)
def test_any_words_are_answered_within_bounds(words: list[str]) -> None:
    assert 0 <= innermost_at(words) <= len(words)
    inner = inner_at(words)
    assert inner is None or 0 < inner <= len(words)
    for call in (program_call(words), python_call(words)):
        assert call is None or 0 < call.arguments_at <= len(words)
    launcher = launcher_of(words)
    assert launcher is None or 0 < launcher[1] <= len(words)
    assert len(programs(words)) <= 16
    assert all(isinstance(word, str) for word in innermost(words))


@given(st.sampled_from(IN_FRONT), st.sampled_from(IN_FRONT), st.sampled_from(["python", "trainer"]))
def test_wrappers_may_stand_in_any_order(first: str, second: str, program: str) -> None:
    words = [*first.split(), *second.split(), program, "x"]

    assert innermost(words) == [program, "x"]


@given(st.text("abc \n;&|<>()'\"\\#=-", max_size=60))
def test_any_text_of_a_shell_is_split(text: str) -> None:
    assert all(words for words in commands_of(text))


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("python train.py", 1),
        ("torchrun --nproc-per-node 4 train.py", 4),
        ("torchrun --nproc_per_node=4 train.py", 4),
        ("torchrun --nproc-per-node=gpu train.py", 1),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py", 2),
        ("accelerate launch --num_processes 8 train.py", 8),
        ("deepspeed --num_gpus 2 train.py", 2),
        ("mpirun -np 3 python train.py", 3),
        ("mpiexec -n 2 python train.py", 2),
        ("nice -n 5 mpirun -n 6 python train.py", 6),
        ("mpirun -np 2 torchrun --nproc-per-node 2 train.py", 4),
        ("bash -c 'cd here && torchrun --nproc-per-node 4 train.py'", 4),
        ("srun -n 16 --ntasks-per-node 4 python train.py", 4),
        # Of the program, not of a launcher.
        ("nice -n 5 python train.py", 1),
        ("torchrun train.py --nproc-per-node 4", 1),
        ("python train.py -n 4 --note torchrun", 1),
        ("torchrun --nproc-per-node " + "9" * 5000 + " train.py", 1),
    ],
)
def test_ranks_are_counted_as_the_launcher_says(command: str, count: int) -> None:
    assert rank_count(shlex.split(command)) == count
