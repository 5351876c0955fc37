"""The environment audit: everything that can be told without running the command.

In: a command (or none), its folder and variables. Out: an `Audit`. Each kind of finding is a
module of its own; here they are only put in order. A part that fails is a line that says so, and
costs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.preflight.audit import (
    abi,
    compatibility,
    cpu,
    limits,
    macos,
    processes,
    runtimes,
    storage,
    variables,
)
from rerail.preflight.audit.closure import Closure, close_over
from rerail.preflight.audit.finding import Finding, by_gravity
from rerail.preflight.audit.target import Target, find_target


@dataclass
class Audit:
    target: Target
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_fatal(self) -> bool:
        return any(finding.level == "fatal" for finding in self.findings)


def audit(command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> Audit:
    target = find_target(command, cwd, environ)
    found: list[Finding] = list(_interpreter(target))
    closure = _attempt(found, "native libraries", lambda: _closure(target)) or Closure()
    versions = {d.name: d.version for d in target.imported.values()}
    gpu = target.surroundings.get("gpu")
    workers = target.program.workers
    parts: tuple[tuple[str, Callable[[], list[Finding]]], ...] = (
        ("OpenMP runtimes", lambda: runtimes.find_openmp(target, closure)),
        ("other runtimes", lambda: runtimes.find_others(target, closure)),
        ("versions", lambda: compatibility.find_in_versions(versions)),
        ("requirements", lambda: compatibility.find_unmet(target)),
        ("wheels", lambda: compatibility.find_wrong_python(target)),
        ("metadata", lambda: compatibility.find_unreadable(target)),
        ("driver", lambda: compatibility.find_cuda_mismatch(target)),
        ("NumPy's interface", lambda: abi.find_numpy_mismatch(target, closure)),
        ("torch's interface", lambda: abi.find_torch_mismatch(target, closure)),
        ("missing libraries", lambda: abi.find_missing_libraries(target, closure)),
        ("C and C++ library", lambda: abi.find_old_runtimes(closure)),
        ("processor", lambda: cpu.find_missing_instructions(target, closure)),
        ("limits", lambda: limits.find_limits(target.surroundings, workers)),
        ("disks", lambda: storage.find_storage(target)),
        ("processes", lambda: processes.find_process_hazards(target)),
        (
            "variables",
            lambda: variables.find_variables(
                environ, list(target.distributions), has_gpu=bool(gpu), python=target.python
            ),
        ),
        ("macOS", lambda: macos.find_macos(target)),
    )
    for name, look in parts:
        found += _attempt(found, name, look) or []
    for path, why in list(closure.unreadable.items())[:3]:
        found.append(_unreadable(target, path, why))
    return Audit(target, by_gravity(_without_repeats(found)))


def _closure(target: Target) -> Closure:
    prefix = target.interpreter.prefix if target.interpreter else None
    named = _named_libraries(target, prefix)
    others = [d for key, d in target.distributions.items() if key not in target.imported]
    return close_over(target.imported, target.environ, prefix, named, others)


def _named_libraries(target: Target, prefix: str | None) -> dict[str, str]:
    """Libraries that the program names in its text and that are where it says, or near."""
    found = {}
    for name, where in target.program.libraries.items():
        base = name.rpartition("/")[2]
        candidates = [target.cwd / name]
        candidates += [Path(prefix) / "lib" / base] if prefix else []
        candidates += [
            Path(p).parent / base
            for d in target.distributions.values()
            for p in d.native
            if p.endswith("/" + base)
        ]
        path = next((c for c in candidates if c.is_file()), None)
        if path is not None:
            found[str(path)] = where
    return found


def _interpreter(target: Target) -> list[Finding]:
    if target.interpreter is None:
        name = target.command[0] if target.command else "python"
        if target.missing_interpreter:
            return [
                Finding(
                    "dependency-missing",
                    "fatal",
                    f"{name} leads to {target.missing_interpreter}, which is not there",
                    "The environment has outlived the Python that it was made with.",
                    ("make it anew with a Python that is there: python3 -m venv --clear FOLDER",),
                    (name,),
                )
            ]
        return [
            Finding(
                "dependency-missing",
                "risky" if target.command else "fatal",
                f"No Python found behind {name}",
                "Only the machine is checked: which packages the command uses is not known.",
                ("rerail check -- python train.py",),
            )
        ]
    it = target.interpreter
    count = len(target.distributions)
    missing = sorted(
        name for name in target.program.imports if target.has_program and _is_missing(name, target)
    )
    found = [
        Finding(
            "dependency-missing",
            "fine",
            f"Python {it.version} in {it.prefix}, {count} packages",
            f"Of these the program would load {len(target.imported)}."
            if target.has_program
            else "",
            where=(it.path,),
        )
    ]
    if missing:
        found.append(
            Finding(
                "dependency-missing",
                "risky",
                f"Not installed: {', '.join(missing[:8])}",
                "The program imports it; where that is not inside a try, it ends there.",
                (f"{it.path} -m pip install {' '.join(missing[:8])}",),
                tuple(target.program.imports[name] for name in missing[:8]),
            )
        )
    return found


def _is_missing(name: str, target: Target) -> bool:
    import sys

    if not name or name in sys.stdlib_module_names or name in target.program.optional:
        return False
    if any(name in d.modules for d in target.distributions.values()):
        return False
    folders = [*(target.interpreter.site_packages if target.interpreter else ()), str(target.cwd)]
    return not any((Path(f) / name).exists() or (Path(f) / f"{name}.py").exists() for f in folders)


def _unreadable(target: Target, path: str, why: str) -> Finding:
    owners = [d.name for d in target.distributions.values() if path in d.native]
    python = target.interpreter.path if target.interpreter else "python"
    do = "reinstall the package that it belongs to"
    if owners:
        do = f"{python} -m pip install --force-reinstall --no-deps {owners[0]}"
    return Finding(
        "missing-shared-library",
        "risky",
        f"{path.rpartition('/')[2]} is not a library that can be loaded here",
        f"{why[:1].upper()}{why[1:]}. Importing it fails.",
        (do,),
        (path,),
    )


def _attempt(found: list[Finding], name: str, look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # a strange environment is the very thing this is for
        found.append(
            Finding(
                "bad-config",
                "risky",
                f"{name} could not be checked",
                f"{type(error).__name__}: {error}.",
                ("please report this with the output of: rerail check --json",),
            )
        )
        return None


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """The same pair told by metadata and by the table is one line: the first."""
    kept: list[Finding] = []
    for finding in findings:
        coupled = ("torch-abi-mismatch", "numpy-abi-mismatch")
        is_repeat = finding.id in coupled and any(
            k.id == finding.id and k.level == "fatal" and _first(k) == _first(finding) for k in kept
        )
        if not is_repeat and finding not in kept:
            kept.append(finding)
    return kept


def _first(finding: Finding) -> str:
    return finding.title.partition(" ")[0].strip(":,")
