"""Which thread holds the lock that another one waits for?

In: the stacks of one process, the sources of its files, and the addresses of local variables where
py-spy can tell them. Out: the holder with its place, or None. Python's locks do not know who holds
them, so it is read from the program: a thread whose line lies in the body of `with X:`, or after
`X.acquire()` without `X.release()`, holds X. Two X are the same if their first names are the same
object, or the same global of one file. Promises: says nothing rather than a guess between two;
reads source files of the program alone, and changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rerail.errors import RerailError
from rerail.recorder.stalls.places import own_part, thread_called
from rerail.records import LockHolder, PythonFrame, ThreadStack
from rerail.store import read_regular

MOST_SOURCE_BYTES = 2 << 20
_MOST_FRAMES = 40
_MOST_THREADS = 64

# By thread and by number of the Python frame, innermost first: names to addresses of the objects.
Variables = Mapping[int, Sequence[Mapping[str, int]]]
Expression = tuple[str, str]  # the first name, and what follows it: ("self", ".lock")


@dataclass(frozen=True)
class _Lock:
    """An expression for a lock, and where it stands."""

    file: str
    expression: Expression
    address: int | None  # of the object behind the first name, if that is a local variable

    def is_same(self, other: _Lock) -> bool:
        if self.address is not None and other.address is not None:
            return self.address == other.address and self.expression[1] == other.expression[1]
        is_global = self.address is None and other.address is None
        return is_global and self.file == other.file and self.expression == other.expression


def find_holder(
    waiting: ThreadStack,
    threads: Sequence[ThreadStack],
    pid: int,
    variables: Variables,
    folder: Path,
) -> LockHolder | None:
    """Who holds the lock that `waiting` waits for; `folder`: where relative names begin."""
    sources = _Sources(folder)
    wanted = _wanted(waiting, variables, sources)
    if wanted is None:
        return None
    lock, place = wanted
    found: list[LockHolder] = []
    for thread in threads[:_MOST_THREADS]:
        is_same_thread = thread is waiting
        for at, frame in enumerate(own_part(thread.python)[:_MOST_FRAMES]):
            if is_same_thread and at < place:
                continue
            held = sources.held(frame)
            names = _names_of(variables, thread, at)
            if any(lock.is_same(_Lock(frame.file, e, names.get(e[0]))) for e in held):
                name = "the same thread" if is_same_thread else thread_called(thread, pid)
                found.append(
                    LockHolder(name, thread.thread_id, frame.file, frame.line, frame.function)
                )
                break
    return found[0] if len(found) == 1 else None


def _wanted(
    waiting: ThreadStack, variables: Variables, sources: _Sources
) -> tuple[_Lock, int] | None:
    """The lock that the thread waits for, and in which of its frames."""
    for at, frame in enumerate(waiting.python[:_MOST_FRAMES]):
        if frame.file.endswith(("threading.py", "synchronize.py")):
            continue  # Condition, Semaphore: what they were asked for stands in the caller's line
        expression = sources.asked_for(frame)
        if expression is None:
            return None
        address = _names_of(variables, waiting, at).get(expression[0])
        return _Lock(frame.file, expression, address), at
    return None


def _names_of(variables: Variables, thread: ThreadStack, at: int) -> Mapping[str, int]:
    frames = variables.get(thread.thread_id, ())
    return frames[at] if at < len(frames) else {}


class _Sources:
    """Files of the program, parsed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trees: dict[str, ast.Module | None] = {}

    def asked_for(self, frame: PythonFrame) -> Expression | None:
        """The X of `with X:` or `X.acquire()` in this line, if there is one alone."""
        scope = self._scope(frame)
        if scope is None:
            return None
        found = {
            expression
            for node in _without_inner_functions(scope)
            for asked in _asked(node)
            if asked.lineno <= frame.line <= (asked.end_lineno or asked.lineno)
            and (expression := _split(asked)) is not None
        }
        return found.pop() if len(found) == 1 else None

    def held(self, frame: PythonFrame) -> set[Expression]:
        """What is held in this line, as far as the function itself shows."""
        scope = self._scope(frame)
        if scope is None:
            return set()
        held: set[Expression] = set()
        taken: list[tuple[int, bool, Expression]] = []
        for node in _without_inner_functions(scope):
            if isinstance(node, (ast.With, ast.AsyncWith)):
                if node.body[0].lineno <= frame.line <= (node.end_lineno or node.lineno):
                    held |= {e for i in node.items if (e := _split(i.context_expr)) is not None}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                expression = _split(node.func.value)
                if node.func.attr in ("acquire", "release") and expression is not None:
                    taken.append((node.lineno, node.func.attr == "acquire", expression))
        for line, is_taken, expression in sorted(taken):
            if line < frame.line:
                (held.add if is_taken else held.discard)(expression)
        return held

    def _scope(self, frame: PythonFrame) -> ast.AST | None:
        """The innermost function that holds the line, else the module."""
        if frame.file not in self._trees:
            self._trees[frame.file] = self._parse(frame.file)
        scope: ast.AST | None = self._trees[frame.file]
        if scope is None:
            return None
        for node in ast.walk(scope):  # outer functions come before inner ones
            if isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef)
            ) and node.lineno <= frame.line <= (node.end_lineno or node.lineno):
                scope = node
        return scope

    def _parse(self, file: str) -> ast.Module | None:
        path = self._folder / file
        try:
            if path.suffix != ".py":
                return None
            return ast.parse(read_regular(path, MOST_SOURCE_BYTES, follows_links=True))
        except (OSError, RerailError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _without_inner_functions(scope: ast.AST) -> Iterator[ast.AST]:
    """What an inner function takes is taken when that one runs."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node
            yield from _without_inner_functions(node)


def _asked(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [item.context_expr for item in node.items]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "acquire"
    ):
        return [node.func.value]
    return []


def _split(node: ast.expr) -> Expression | None:
    """`self.locks[0]` as `self` and `.locks[0]`; None if it is more than names and fixed places."""
    root: ast.expr = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        if isinstance(root, ast.Subscript) and not isinstance(root.slice, ast.Constant):
            return None
        root = root.value
    if not isinstance(root, ast.Name):
        return None
    return root.id, ast.unparse(node)[len(root.id) :]
