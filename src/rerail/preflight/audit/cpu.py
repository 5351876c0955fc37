"""CPU instructions that the packages need and this processor may lack.

In: versions, the closure, the processor's flags. Out: findings. From instructions.toml, and from
the x86-64 level that a linker noted in a library.
"""

from __future__ import annotations

import platform

from rerail.preflight.audit.closure import Closure
from rerail.preflight.audit.finding import Finding
from rerail.preflight.audit.known import load, numbers
from rerail.preflight.audit.target import Target
from rerail.wording import listed

_LEVELS = {
    2: {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    3: {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    4: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


def find_missing_instructions(target: Target, closure: Closure) -> list[Finding]:
    cpu = target.surroundings.get("cpu") or {}
    flags = set(cpu.get("flags") or ())
    if not flags or platform.machine() not in ("x86_64", "AMD64"):
        return []
    found = []
    for rule in load("instructions")["needs"]:
        package = target.imported.get(rule["package"])
        if package is None or numbers(package.version) < numbers(rule["from"]):
            continue
        missing = [flag for flag in rule["flags"] if flag not in flags]
        if missing:
            do = rule.get("instead") or f"build {package.name} from source for this processor"
            found.append(_lacks(package.label, missing, do, (), rule["source"]))
    for path, links in sorted(closure.links.items()):
        needed: set[str] = set()
        for level in range(2, links.isa_level + 1):
            needed |= _LEVELS.get(level, set())
        missing = sorted(needed - flags)
        if missing:
            who = listed(sorted(closure.brought_by.get(path, set()))[:3])
            do = "install a build for an older processor"
            found.append(_lacks(who, missing, do, (path,), ""))
            break
    if not found:
        has = [flag for flag in ("avx", "avx2", "avx512f") if flag in flags]
        found.append(
            Finding(
                "cpu-instruction-missing",
                "fine",
                f"The processor has what the packages need ({', '.join(has) or 'no AVX'})",
            )
        )
    return found


def _lacks(who: str, missing: list[str], do: str, where: tuple[str, ...], source: str) -> Finding:
    return Finding(
        "cpu-instruction-missing",
        "fatal",
        f"{who} needs {listed(missing)}, and this processor has not",
        "The process dies of SIGILL at the first such instruction.",
        (do,),
        where,
        source=source,
    )
