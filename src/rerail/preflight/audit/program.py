"""What a command's program says of itself in its text: imports, workers, libraries by name.

In: the command, its folder and variables, where packages are. Out: a `Program`. Promises: reads and
parses source text, runs nothing; follows the program's own modules, not those of packages; a file
that cannot be parsed is named in `problems` and otherwise passed over.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rerail.platform.command_line import innermost, program_call
from rerail.platform.interpreter import editable_folders
from rerail.platform.patterns import linear

_LIBRARY = linear(r"\.(?:so(?:\.[\d.]+)?|dylib)$")
_WORKER_OPTION = linear(r"^--?(?:num[-_])?(?:data[-_]?loader[-_])?(?:num[-_])?workers?$|^-j$")
_CATCH_IMPORTS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_START_METHODS = {"fork", "spawn", "forkserver"}
_MOST_FILES = 300
_MOST_FILE_BYTES = 4 << 20


@dataclass
class Program:
    path: str = ""  # the script, or "" where none was found
    imports: dict[str, str] = field(default_factory=dict)  # top-level name: file:line
    optional: set[str] = field(default_factory=set)  # imported only where a failure is caught
    files: list[str] = field(default_factory=list)
    libraries: dict[str, str] = field(default_factory=dict)  # named in a string: file:line
    start_methods: dict[str, str] = field(default_factory=dict)
    workers: int | None = None  # the largest number that is asked for
    forks: str = ""  # where processes are started
    has_main_guard: bool = False
    assigned: dict[str, str] = field(default_factory=dict)  # os.environ[...] = constant
    problems: list[str] = field(default_factory=list)

    @property
    def starts_processes(self) -> bool:
        return bool(self.forks) or bool(self.workers)


def read_program(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str], paths: Sequence[str] = ()
) -> Program:
    program = Program()
    words = innermost(command) or list(command)
    program.workers = _workers_of(words)
    source = _find_source(words, cwd, environ, paths)
    if source is None:
        return program
    path, text = source
    program.path = str(path) if path else ""
    own = [path.parent] if path else []
    own += [cwd, *(cwd / p for p in environ.get("PYTHONPATH", "").split(":") if p)]
    own += list(editable_folders(paths))
    _follow(program, path, text, own)
    return program


def _workers_of(words: Sequence[str]) -> int | None:
    """`--workers 8`, `--num_workers=8`: as the command says it."""
    largest: int | None = None
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not _WORKER_OPTION.match(name):
            continue
        value = value if equals else (words[at + 1] if at + 1 < len(words) else "")
        if value.isdigit():
            largest = max(largest or 0, int(value))
    return largest


def _find_source(
    words: list[str], cwd: Path, environ: Mapping[str, str], paths: Sequence[str]
) -> tuple[Path | None, str] | None:
    call = program_call(words)
    if call is not None and call.kind == "code":
        return None, call.target
    if call is not None and call.kind == "module":
        found = _module_file(call.target, [cwd, *editable_folders(paths), *map(Path, paths)])
        if found is not None:
            return found, _text(found)
    named = [call.target] if call is not None and call.kind == "script" else []
    for word in [*named, *(word for word in words if word.endswith(".py"))]:
        if (cwd / word).is_file():
            return cwd / word, _text(cwd / word)
    return _console_script(words, cwd, environ)


def _console_script(
    words: list[str], cwd: Path, environ: Mapping[str, str]
) -> tuple[Path, str] | None:
    first = words[0] if words else ""
    found = first if "/" in first else shutil.which(first, path=environ.get("PATH"))
    if found and (cwd / found).is_file():
        text = _text(cwd / found)
        if text.startswith("#!") and "python" in text.partition("\n")[0]:
            return cwd / found, text
    return None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_FILE_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _module_file(name: str, folders: Sequence[Path]) -> Path | None:
    inside = name.replace(".", "/")
    for folder in folders:
        for candidate in (f"{inside}.py", f"{inside}/__main__.py", f"{inside}/__init__.py"):
            if (folder / candidate).is_file():
                return folder / candidate
    return None


def _follow(program: Program, path: Path | None, text: str, own: Sequence[Path]) -> None:
    waiting: list[tuple[Path | None, str]] = [(path, text)]
    seen = {path}
    while waiting and len(program.files) < _MOST_FILES:
        current, source = waiting.pop(0)
        label = current.name if current else "-c"
        program.files.append(str(current) if current else "-c")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError) as error:
            program.problems.append(f"{label}: {error}")
            continue
        visitor = _Reader(program, label)
        visitor.visit(tree)
        package = current.parent if current else None
        for name in visitor.modules:
            found = _own_file(name, own, package)
            if found is None:
                first = name.partition(".")[0]
                program.imports.setdefault(first, visitor.modules[name])
                if name in visitor.optional:
                    program.optional.add(first)
            elif found not in seen:
                seen.add(found)
                waiting.append((found, _text(found)))


def _own_file(name: str, own: Sequence[Path], package: Path | None) -> Path | None:
    if name.startswith("."):
        level = len(name) - len(name.lstrip("."))
        folder = package
        for _ in range(level - 1):
            folder = folder.parent if folder else None
        if folder is None:
            return None
        inside = name.lstrip(".")
        return _module_file(inside, [folder]) if inside else None
    found = _module_file(name, own)
    if found is None and "." in name:  # `from package.module import function`
        found = _module_file(name.rpartition(".")[0], own)
    return found


def _caught(handler: ast.ExceptHandler) -> set[str]:
    """Names of the exceptions that a handler takes; a bare one takes all."""
    if handler.type is None:
        return {"Exception"}
    return {each.id for each in ast.walk(handler.type) if isinstance(each, ast.Name)}


def _strings(node: ast.expr) -> set[str]:
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


class _Reader(ast.NodeVisitor):
    def __init__(self, program: Program, label: str) -> None:
        self.program = program
        self.label = label
        self.modules: dict[str, str] = {}
        self.optional: set[str] = set()
        self._is_caught = False

    def _add(self, name: str, node: ast.AST) -> None:
        if name not in self.modules and self._is_caught:
            self.optional.add(name)
        elif not self._is_caught:
            self.optional.discard(name)
        self.modules.setdefault(name, self._at(node))

    def visit_Try(self, node: ast.Try) -> None:
        """`try: import x` with a handler: it may well not be there."""
        outer = self._is_caught
        names = {name for h in node.handlers for name in _caught(h)}
        self._is_caught = outer or bool(names & _CATCH_IMPORTS)
        for statement in node.body:
            self.visit(statement)
        self._is_caught = outer
        rest: list[ast.AST] = [*node.handlers, *node.orelse, *node.finalbody]
        for part in rest:
            self.visit(part)

    def _at(self, node: ast.AST) -> str:
        return f"{self.label}:{getattr(node, 'lineno', 0)}"

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "")
        self._add(base, node)
        for alias in node.names if node.level or node.module else ():
            joined = base + ("" if base.endswith(".") else ".") + alias.name
            if node.level:
                self._add(joined, node)

    def visit_If(self, node: ast.If) -> None:
        text = ast.unparse(node.test)
        if "__name__" in text and "__main__" in text:
            self.program.has_main_guard = True
        if "TYPE_CHECKING" in text:
            for child in node.orelse:
                self.visit(child)
            return
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, str) and len(value) < 400 and _LIBRARY.search(value):
            self.program.libraries.setdefault(value, self._at(node))

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if (
                isinstance(target, ast.Subscript)
                and ast.unparse(target.value) in ("os.environ", "environ")
                and isinstance(target.slice, ast.Constant)
                and isinstance(node.value, ast.Constant)
            ):
                self.program.assigned[str(target.slice.value)] = str(node.value.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        if name in ("set_start_method", "get_context") and node.args:
            method = node.args[0]
            if isinstance(method, ast.Constant) and isinstance(method.value, str):
                self.program.start_methods.setdefault(method.value, self._at(node))
        if name in ("Process", "Pool", "ProcessPoolExecutor") or called == "os.fork":
            self.program.forks = self.program.forks or self._at(node)
        for keyword in node.keywords:
            if keyword.arg == "num_workers":
                self._note_workers(keyword.value, node)
            elif keyword.arg == "multiprocessing_context":
                for known in _strings(keyword.value) & _START_METHODS:
                    self.program.start_methods.setdefault(known, self._at(node))
        if name == "add_argument":
            self._note_default(node)
        self.generic_visit(node)

    def _note_default(self, node: ast.Call) -> None:
        """`--workers` with a default, where the command does not say another number."""
        if self.program.workers is not None:
            return
        names = [text for argument in node.args for text in _strings(argument)]
        if not any(_WORKER_OPTION.match(name) for name in names):
            return
        for keyword in node.keywords:
            value = keyword.value
            is_number = isinstance(value, ast.Constant) and type(value.value) is int
            if keyword.arg == "default" and is_number:
                self.program.workers = int(ast.unparse(value))

    def _note_workers(self, value: ast.expr, node: ast.AST) -> None:
        if isinstance(value, ast.Constant) and isinstance(value.value, int):
            if value.value > 0:
                self.program.workers = max(self.program.workers or 0, value.value)
                self.program.forks = self.program.forks or self._at(node)
        elif self.program.workers is None or self.program.workers > 0:
            self.program.forks = self.program.forks or self._at(node)  # a variable: may be more
