"""`rerail run` that cannot record: it says so in one line and becomes the command."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail import bare
from rerail.cli.run import command as run_command

SAYS = "the command runs without rerail"
# Each stands in for a whole class: our own module, a library, a module of Python's, a C extension.
BROKEN = {
    "a module of ours with a syntax error": ("rerail/recorder/run/loop.py", "def ("),
    "a library that is not there": ("click/__init__.py", "raise ImportError('no click')"),
    "a library of another version": ("click/__init__.py", ""),
    "a module for which there is no memory": (
        "rerail/recorder/tree/processes.py",
        "raise MemoryError",
    ),
    "a recursion": ("rerail/store/layout.py", "def f(): f()\nf()"),
}


def run(*arguments: str, before: str = "", **options: object) -> subprocess.CompletedProcess[bytes]:
    """As the installed script does, after `before`."""
    code = f"import sys; {before}\nfrom rerail.__main__ import main; sys.exit(main())"
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code, *arguments], capture_output=True, timeout=180, **options
    )


def broken(folder: Path, name: str, text: str) -> str:
    """Code that puts a broken module in front of the real one."""
    path = folder / "broken.py"
    path.write_text(text)
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return (
        "import importlib.util, importlib.abc\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}:\n"
        f"            return importlib.util.spec_from_file_location(name, {str(path)!r})\n"
        "sys.meta_path.insert(0, Finder())"
    )


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_install(tmp_path: Path, case: str) -> None:
    before = broken(tmp_path, *BROKEN[case])
    home = ["--home", str(tmp_path / "home")]
    done = run("run", *home, "--", "sh", "-c", "echo a; exit 7", before=before)
    assert (done.returncode, done.stdout) == (7, b"a\n"), done.stderr
    assert done.stderr.decode().count("\n") == 1 and SAYS in done.stderr.decode()


def test_a_broken_install_and_another_command(tmp_path: Path) -> None:
    done = run("runs", before=broken(tmp_path, "click/__init__.py", "raise ImportError('gone')"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"rerail: a defect of rerail itself: ImportError: gone\n"


NO_CLICK = ("click/__init__.py", "raise ImportError('gone')")


@pytest.mark.parametrize("arguments", [["--colour", "--", "true"], ["--"], [], ["--help", "true"]])
def test_what_is_typed_wrong_runs_nothing(tmp_path: Path, arguments: list[str]) -> None:
    mark = tmp_path / "ran"
    words = [word if word != "true" else f"touch {mark}" for word in arguments]
    for before in ("", broken(tmp_path, *NO_CLICK)):
        done = run("run", "--home", str(tmp_path), *words, before=before)
        assert done.returncode == (0 if words[:1] == ["--help"] and not before else 2)
        assert not mark.exists()


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    done = run("run", "--", "no-such-program", before=broken(tmp_path, *NO_CLICK))
    assert done.returncode == 127 and b"command not found: no-such-program" in done.stderr


def test_quiet_says_nothing(tmp_path: Path) -> None:
    done = run("run", "-q", "sh", "-c", "exit 3", before=broken(tmp_path, *NO_CLICK))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


@pytest.mark.parametrize("module", ["click", "rerail/store/store"])
def test_json_is_one_document_and_the_output_goes_to_standard_error(
    tmp_path: Path, module: str
) -> None:
    before = broken(tmp_path, f"{module}.py", "raise ImportError('not \"here\"')")
    done = run("run", "--json", "--", "sh", "-c", "echo a; exit 7", before=before)
    document = json.loads(done.stdout)
    assert done.returncode == 7 and done.stderr.endswith(b"\na\n")
    assert document["schema"] == 1 and document["causes"] == []
    assert document["outcome"]["kind"] == "unknown"


def test_json_where_standard_output_was_already_set_aside(tmp_path: Path) -> None:
    """Few descriptors fail later than a broken import: the recorder had begun."""
    import resource

    done = run(
        *("run", "--json", "--home", str(tmp_path), "--", "sh", "-c", "echo a; exit 7"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)),
    )
    assert done.returncode == 7 and done.stderr.endswith(b"\na\n")
    assert json.loads(done.stdout)["outcome"]["kind"] == "unknown"


SHOW_STATE = (
    "import os, signal\n"
    "print(sorted(os.listdir('/proc/self/fd'))[:3])\n"
    "for line in open('/proc/self/status'):\n"
    "    if line.startswith(('SigBlk', 'SigIgn')): print(line.strip())\n"
    "print(sorted((k, v) for k, v in os.environ.items() if k != '_'))\n"
    "print(os.getpgrp() == int(os.environ['GROUP']), os.getcwd())\n"
    "print(open('/proc/self/task/%d/children' % os.getpid()).read().split())\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize("ignored", [[], [signal.SIGPIPE], [signal.SIGINT, signal.SIGHUP]])
def test_the_command_finds_what_rerail_was_started_with(tmp_path: Path, ignored: list[int]) -> None:
    """Also where the recorder had begun: it blocks signals, forks helpers, opens descriptors."""
    program = tmp_path / "show.py"
    program.write_text(SHOW_STATE)
    names = " ".join(signal.Signals(number).name.removeprefix("SIG") for number in ignored)
    shell = f"trap '' {names}; " if names else ""
    shown = []
    python = shlex.quote(sys.executable)
    for rerail in ("", f"{python} -m rerail run --home {shlex.quote(str(tmp_path))}/home -- "):
        done = subprocess.run(
            [
                "sh",
                "-c",
                f"{shell}ulimit -n 12; {rerail}{python} {shlex.quote(str(program))}; exit $?",
            ],
            capture_output=True,
            env={**os.environ, "GROUP": str(os.getpgrp())},
            stdin=subprocess.DEVNULL,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert SAYS in done.stderr.decode()
    assert shown[0] == shown[1]


@pytest.mark.thorough
def test_what_was_not_recorded_does_not_read_as_running(tmp_path: Path) -> None:
    import resource

    from rerail.store import Store

    for limit in range(14, 40):
        done = run(
            *("run", "--home", str(tmp_path), "--", "true"),
            preexec_fn=lambda limit=limit: resource.setrlimit(
                resource.RLIMIT_NOFILE, (limit, limit)
            ),
        )
        assert done.returncode == 0
    states = {info.state for info in Store(tmp_path).list()}
    assert states <= {"ended"}, states


OTHER_WORDS = "-- - -qq -h --help --home=x --json=1 --colour 3 report safe python -x --lr --stall=2"
WORDS = st.sampled_from([*sorted(bare.FLAGS | bare.WITH_VALUE), *OTHER_WORDS.split(), ""])


@given(st.lists(WORDS, max_size=7))
def test_it_finds_the_same_command_as_the_command_line(words: list[str]) -> None:
    found = bare.parse(["run", *words])
    settings = {**run_command.context_settings, "help_option_names": ["-h", "--help"]}
    context = click.Context(run_command, **settings)
    help_name = next(p.name for p in run_command.get_params(context) if "--help" in p.opts)
    parser = run_command.make_parser(context)
    try:
        values, _, _ = parser.parse_args(list(words))
    except click.UsageError:
        assert found is None
        return
    command = values["command"]
    if help_name in values or not isinstance(command, tuple) or not command:
        assert found is None
        return
    assert found is not None
    assert found.command == list(command)
    assert found.is_quiet == bool(values.get("is_quiet"))
    assert found.as_json == bool(values.get("as_json"))


def test_it_knows_every_option_of_the_command() -> None:
    flags, with_value = set(), set()
    for parameter in run_command.params:
        if isinstance(parameter, click.Option):
            names = {*parameter.opts, *parameter.secondary_opts}
            (flags if parameter.is_flag else with_value).update(names)
    assert (flags, with_value) == (bare.FLAGS, bare.WITH_VALUE)


def test_the_entry_point_needs_nothing_but_the_interpreter() -> None:
    code = (
        f"import os, sys; sys.path[:0] = {sys.path!r}; before = set(sys.modules)\n"
        "import rerail.__main__, rerail.room\n"
        "new = set(sys.modules) - before - set(sys.builtin_module_names)\n"
        "assert new == {'rerail', 'rerail.__main__', 'rerail.bare', 'rerail.room'}, new\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
