"""The rules of the house, held by tests: who imports whom, sizes, names, docstrings, help texts."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rerail
from rerail.cli import main
from rerail.cli._discovery import command_names, summary_of

PACKAGE = Path(rerail.__file__).parent
ROOT = PACKAGE.parent.parent
STUB = PACKAGE / "agent" / "stub"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [
    path
    for folder in (PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "workloads")
    for suffix in ("*.py", "*.c", "*.h", "*.js", "*.css")
    for path in sorted(folder.rglob(suffix))
]
LONGEST = 500
FORBIDDEN = {"utils", "util", "helpers", "helper", "common", "manager", "core", "misc"}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module, which several tests walk through."""
    return ast.parse(path.read_text(encoding="utf-8"))


def rooms_in_order() -> list[set[str]]:
    """The list in docs/architecture.md, earliest first; names with a comma share a place."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"^(`records.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert listed, "docs/architecture.md no longer lists the rooms in order"
    return [set(re.split(r",\s*", names)) for names in re.findall(r"`([^`]+)`", listed[1])]


def place_of(room: str) -> int:
    for place, names in enumerate(rooms_in_order()):
        if room in names:
            return place
    raise AssertionError(f"room {room} is not listed in docs/architecture.md")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, also inside functions and for types alone."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or STUB in path.parents, f"{path}: relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "cli" if first == "__main__" else first


def test_the_list_of_rooms_is_the_one_on_disk() -> None:
    for path in MODULES:
        if path.parent != PACKAGE or path.name != "__init__.py":
            place_of(room_of(path))


def test_a_room_imports_only_from_rooms_before_it() -> None:
    wrong = []
    for path in MODULES:
        if STUB in path.parents or path == PACKAGE / "__init__.py":
            continue
        own = place_of(room_of(path))
        for line, name in imports_of(path):
            parts = name.split(".")
            is_room = parts[0] == "rerail" and len(parts) > 1 and not parts[1].startswith("__")
            if is_room and place_of(parts[1]) > own:
                wrong.append(f"{name_of(path)}:{line} imports {name}")
    assert wrong == []


def doors() -> dict[str, set[str]]:
    """By room, what others may use."""
    rooms = [path.parent for path in MODULES if path.name == "__init__.py"]
    return {
        room.name: set(importlib.import_module(f"rerail.{room.name}").__all__)
        for room in rooms
        if room.parent == PACKAGE and room.name not in ("cli", "platform")
    }


def test_what_a_door_promises_is_behind_it() -> None:
    for room, names in doors().items():
        module = importlib.import_module(f"rerail.{room}")
        assert sorted(names) == sorted(module.__all__), f"{room} lists a name twice"
        for name in names:
            assert getattr(module, name, None) is not None, f"{room} has no {name}"


def test_rooms_are_entered_through_their_doors() -> None:
    """Through a name that the room lists, or through a module that it lists by name."""
    public = doors()
    modules = {
        f"rerail.{room}.{name}": getattr(importlib.import_module(f"rerail.{room}"), name)
        for room, names in public.items()
        for name in names
    }
    listed = {value.__name__ for value in modules.values() if isinstance(value, ModuleType)}
    wrong = []
    for path in MODULES:
        if STUB in path.parents:
            continue
        for line, name in imports_of(path):
            room, _, rest = name.removeprefix("rerail.").partition(".")
            if not name.startswith("rerail.") or room == room_of(path) or room not in public:
                continue
            if rest not in public[room] and name.rpartition(".")[0] not in listed:
                wrong.append(f"{name_of(path)}:{line} imports {name}")
    assert wrong == []


def test_survival_and_the_stub_import_nothing_of_rerail() -> None:
    wrong = []
    for path in MODULES:
        is_survival = room_of(path) == "survival"
        if not is_survival and STUB not in path.parents:
            continue
        for line, name in imports_of(path):
            is_own_room = is_survival and name.startswith("rerail.survival")
            if name.split(".")[0] == "rerail" and not is_own_room:
                wrong.append(f"{name_of(path)}:{line} imports {name}")
    assert wrong == []


def test_the_stub_imports_the_standard_library_and_itself_alone() -> None:
    own = {path.stem for path in STUB.rglob("*.py")} | {"None"}  # None: from . import x
    wrong = [
        f"{path.name}:{line} imports {name}"
        for path in STUB.rglob("*.py")
        for line, name in imports_of(path)
        if name.split(".")[0] not in sys.stdlib_module_names | own
    ]
    assert wrong == []


def test_every_module_says_what_it_is() -> None:
    silent = [name_of(path) for path in MODULES if not ast.get_docstring(tree_of(path))]
    assert silent == []


def test_no_file_is_an_attic() -> None:
    """Past this length a file wants to be split by what it speaks of."""
    counts = {path: path.read_bytes().count(b"\n") for path in SOURCES}
    lengths = {str(path.relative_to(ROOT)): n for path, n in counts.items()}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_names_say_what_is_in_it() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if {*path.relative_to(ROOT).parts[:-1], path.stem} & FORBIDDEN
    ]
    assert wrong == []


def test_every_command_explains_itself_with_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in command_names():
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"rerail {name}" in text.partition("Example")[2], f"{name} --help has no example"
        assert [line for line in text.splitlines() if len(line) > 80] == [], name


def test_every_command_has_a_summary_of_one_line() -> None:
    for name in command_names():
        assert 10 <= len(summary_of(name)) <= 100, name


# Who may open a file in another way than store/regular_files.py, and what it opens. Everything of a
# store goes through that module, since anybody may have put anything there.
OPENED_ELSEWHERE = {
    "cli/_discovery.py": "our own source",
    "cli/_failures.py": "a new file for a defect's details; /dev/null",
    "evidence/text/inputs.py": "what the user named, and logs in it",
    "evidence/text/rank_survey.py": "logs that the user named",
    "evidence/text/scan.py": "a log that the user named, which may be a pipe",
    "experiments/environments/copies.py": "the user's packages",
    "experiments/environments/own.py": "the user's packages",
    "experiments/environments/upgrades.py": "lists that the user named",
    "experiments/edits/repository.py": "the user's program",
    "experiments/edits/trees.py": "the user's program",
    "experiments/reproducer/reduction.py": "the user's program",
    "jobs/beat.py": "/sys/class/net",
    "recorder/kernel/cores.py": "core files of the user's program",
    "recorder/vitals/machine.py": "/proc and /sys",
    "recorder/surroundings.py": "/proc and /sys",
    "recorder/stalls/waits.py": "/proc",
    "experiments/verification/baseline.py": "the user's program",
    "checkpoints/check.py": "the user's checkpoints",
    "checkpoints/parts.py": "the user's checkpoints",
    "checkpoints/copies.py": "the user's checkpoints, and copies of them",
    "checkpoints/formats/streams.py": "the user's checkpoints",
    "report/html.py": "our own style sheets",
    "scheduling/local.py": "/sys/fs/cgroup",
    "scheduling/recording_process.py": "/dev/null",
    "store/index.py": "a database, once it is known to be a file",
    "store/layout.py": "a folder, to sync it",
    "store/liveness.py": "a folder, to lock it",
    "store/regular_files.py": "this is the one place",
    "study/artifacts.py": "the user's results",
    "study/completeness.py": "the user's results",
    "study/html.py": "our own style sheets",
    "ui/pages.py": "our own style sheets and scripts",
}
ROOMS_THAT_READ_RUNS = {
    *("store", "recorder", "evidence", "diagnosis", "scheduling", "experiments"),
    *("checkpoints", "jobs", "remedies", "study", "live", "report", "watch", "ui", "cli"),
}
OPENING = {"open", "read_text", "read_bytes", "fromfile", "memmap", "copyfile", "sqlite3.connect"}
OPENED_BY_NAME = {"TrialJournal", "webbrowser", "segment", "archive", "smaller", "socket", "client"}


def opened_paths(path: Path) -> Iterator[tuple[int, str]]:
    """Calls that open a file, but for those of the kernel's own by their full name."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        text = ast.unparse(node)
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_other = isinstance(of, ast.Name) and of.id in OPENED_BY_NAME
        full = f"{of.id}.{name}" if isinstance(of, ast.Name) else name
        is_kernels = re.search(r"\(f?['\"]/(proc|sys|dev)/", text)
        if {name, full} & OPENING and not is_other and not is_kernels:
            yield node.lineno, text


def test_files_of_a_store_are_opened_in_one_place_alone() -> None:
    wrong, used = [], set()
    for path in MODULES:
        if room_of(path) not in ROOMS_THAT_READ_RUNS:
            continue
        for line, text in opened_paths(path):
            used.add(name_of(path))
            if name_of(path) not in OPENED_ELSEWHERE:
                wrong.append(f"{name_of(path)}:{line} {text}: use store/regular_files.py")
    assert wrong == []
    assert sorted(set(OPENED_ELSEWHERE) - used) == [], "no longer opens anything: take it out"


# Modules that write, create or rename a path without platform/user_files.py, and what they write. A
# path that the user named goes through that module: it may be a device, a pipe or a foreign file.
WRITTEN_ELSEWHERE = {
    "agent/preload.py": "a link in a folder of rerail",
    "agent/stub/rerail_agent.py": "a new file inside a run folder",
    "agent/stub/rerail_census.py": "a file inside a run folder",
    "agent/stub/rerail_hooks_trackers.py": "a file inside a run folder",
    "catalogue/build_compiled.py": "the catalogue of the package that is being built",
    "checkpoints/copies.py": "new files in a folder of a trial",
    "cli/_failures.py": "a new file for a defect's details",
    "cli/_project_trust.py": "a record in the user's state folder, which rerail makes",
    "experiments/edits/trees.py": "a copy of the user's program in a folder of rerail",
    "experiments/environments/build.py": "an environment of rerail's own",
    "experiments/environments/copies.py": "an environment of rerail's own",
    "experiments/environments/activation.py": "an environment of rerail's own",
    "experiments/reproducer/npz_slice.py": "a file in a folder that rerail has just made",
    "experiments/trials/answers.py": "files inside the store",
    "experiments/trials/journal.py": "files inside the store",
    "jobs/gathering.py": "files inside the store",
    "jobs/place.py": "files in the folder of a job, which rerail made",
    "platform/compiled_data.py": "the cache of rerail",
    "platform/layers.py": "files among what trials wrote, and in a folder of rerail",
    "platform/own_folder.py": "a lock in a temporary folder of rerail",
    "platform/overlay.py": "folders that it mounts, and the user map of its own namespace",
    "platform/user_files.py": "the one writer of paths that the user named",
    "preflight/memory/stub/rerail_rehearsal.py": "the folder of a rehearsal",
    "privacy/output.py": "files inside a run folder",
    "report/package.py": "an archive in memory",
    "scheduling/ray_cluster.py": "files inside the store",
    "study/artifacts.py": "folders inside a study",
    "study/workspace.py": "folders inside a study",
    "trackers/closer.py": "files inside a run folder",
    "trackers/event_file.py": "a new file beside the event files of the run",
    "trackers/stub/rerail_close_wandb.py": "the folder of a W&B run",
    "trackers/stub/rerail_wandb_log.py": "the file of a W&B run, whose kind was checked",
    "ui/opening.py": "a new file in a temporary folder of its own",
}
WRITING = {"write_text", "write_bytes", "replace_file", "overwrite_file", "copyfile", "copy2"}
MODE_THAT_WRITES = re.compile(r"[rbt]*[wax+][bt+]*")


def writes_a_path(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node.func, ast.Name) else name
    text = ast.unparse(node)
    if re.search(r"\(f?['\"]/(proc|sys|dev)/|os\.devnull", text):
        return False
    if text.startswith("os.open("):
        return "O_RDONLY" not in text
    if name in ("open", "ZipFile"):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        modes = [str(each.value) for each in given if isinstance(each, ast.Constant)]
        return any(map(MODE_THAT_WRITES.fullmatch, modes)) and "closefd=False" not in text
    if name in ("replace", "rename"):  # of a path, which takes one argument; a text takes two
        return text.startswith("os.") or (len(node.args) == 1 and not node.keywords)
    return name in WRITING


def test_paths_of_the_user_are_written_in_one_place_alone() -> None:
    wrong, used = [], set()
    for path in MODULES:
        if room_of(path) == "store":
            continue  # files inside the store; tests/store holds it to that
        for node in ast.walk(tree_of(path)):
            if writes_a_path(node):
                used.add(name_of(path))
                if name_of(path) not in WRITTEN_ELSEWHERE:
                    text = f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
                    wrong.append(f"{text}: use platform/user_files.py")
    assert wrong == []
    assert sorted(set(WRITTEN_ELSEWHERE) - used) == [], "no longer writes anything: take it out"


def test_sentences_leave_the_command_line_through_one_function() -> None:
    """Else a name that holds an escape sequence is obeyed by the terminal."""
    allowed = {"_telling.py", "completion.py", "skill.py"}  # the others print no names
    for path in sorted((PACKAGE / "cli").glob("*.py")):
        assert "click.echo(" not in path.read_text() or path.name in allowed, path
