"""Versions that do not work together, told from metadata alone.

In: the target. Out: findings from three sources: what packages themselves demand (Requires-Dist),
which Python their wheels were built for, and compatibility.toml, which knows what metadata leaves
out. `find_in_versions` needs names and versions only, so that a run can ask it for nothing.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rerail.platform.distributions import Distribution, normalised, split_requirement
from rerail.preflight.audit.finding import Finding, Level
from rerail.preflight.audit.known import load, numbers

if TYPE_CHECKING:
    from rerail.preflight.audit.target import Target

_MOST_LISTED = 8


def find_in_versions(versions: Mapping[str, str]) -> list[Finding]:
    """From names and versions: pairs that compatibility.toml knows."""
    known = {normalised(name): version for name, version in versions.items()}
    found = [_coupled(rule, known) for rule in load("compatibility")["coupled"]]
    found += [_below(rule, known) for rule in load("compatibility")["below"]]
    found += [_one_of(rule, known) for rule in load("compatibility")["one_of"]]
    return [finding for finding in found if finding is not None]


def _coupled(rule: Mapping[str, Any], known: Mapping[str, str]) -> Finding | None:
    package, other = rule["package"], rule["with"]
    if package not in known or other not in known:
        return None
    has, beside = numbers(known[package]), numbers(known[other])
    if len(has) < 2 or len(beside) < 2:
        return None
    if rule.get("same_minor"):
        if has[:2] == beside[:2] or has[0] < 2:
            return None
        wanted = f"{has[0]}.{has[1]}"
    else:
        offset = rule["offset"]
        if has[0] != offset["major"] or has[1] < offset["from"]:
            return None
        minor = has[1] + offset["minor"]
        if beside[:2] == (offset["with_major"], minor):
            return None
        wanted = f"{offset['with_major']}.{minor}"
    return Finding(
        rule["id"],
        "fatal",
        f"{package} {known[package]} is built for {other} {wanted}, not {known[other]}",
        f"{package} fails: {rule['breaks']}.",
        (f"pip install --upgrade {package} {other}", f"or: pip install '{other}=={wanted}.*'"),
        source=rule["source"],
    )


def _below(rule: Mapping[str, Any], known: Mapping[str, str]) -> Finding | None:
    package, other = rule["package"], rule["with"]
    if package not in known or other not in known:
        return None
    is_old = numbers(known[package]) < numbers(rule["version"])
    if not is_old or numbers(known[other]) < numbers(rule["from"]):
        return None
    level: Level = rule["level"]
    return Finding(
        rule["id"],
        level,
        f"{package} {known[package]} does not work with {other} {known[other]}",
        f"{rule['breaks'][:1].upper()}{rule['breaks'][1:]}.",
        (rule["do"],),
        source=rule["source"],
    )


def _one_of(rule: Mapping[str, Any], known: Mapping[str, str]) -> Finding | None:
    there = [package for package in rule["packages"] if package in known]
    if len(there) < 2:
        return None
    return Finding(
        rule["id"],
        "risky",
        f"{' and '.join(there)} are both installed",
        f"{rule['breaks'][:1].upper()}{rule['breaks'][1:]}.",
        (f"pip uninstall {' '.join(there)}; pip install {there[0]}",),
        source=rule["source"],
    )


def find_unmet(target: Target) -> list[Finding]:
    """What imported packages demand of others and do not get, as `pip check` would say it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion

    coupled = {rule["package"]: rule for rule in load("compatibility")["coupled"]}
    environment = _marker_environment(target)
    unmet: list[str] = []
    found: list[Finding] = []
    for distribution in target.imported.values():
        for text in distribution.requires:
            name, specifiers, marker = split_requirement(text)
            other = target.distributions.get(normalised(name))
            if not name or "extra" in marker or (other is not None and not specifiers):
                continue
            try:
                requirement = Requirement(text)
                applies = requirement.marker is None or requirement.marker.evaluate(environment)
                if not applies:
                    continue
                if other is not None and requirement.specifier.contains(
                    other.version, prereleases=True
                ):
                    continue
            except (InvalidRequirement, InvalidVersion, ValueError):
                continue
            has = f"{other.version} is installed" if other else "it is not installed"
            sentence = f"{distribution.label} needs {name} {specifiers}".rstrip() + f", and {has}"
            rule = coupled.get(distribution.key)
            if rule and other is not None and normalised(name) == rule["with"]:
                found.append(_broken_couple(sentence, distribution, other, rule))
            else:
                unmet.append(sentence)
    if unmet:
        shown = unmet[:_MOST_LISTED]
        more = f" (and {len(unmet) - len(shown)} more)" if len(unmet) > len(shown) else ""
        found.append(
            Finding(
                "dependency-missing",
                "risky",
                f"{len(unmet)} requirement{'s are' if len(unmet) > 1 else ' is'} not met",
                "; ".join(shown) + more + ".",
                ("pip check", "pip install --upgrade " + _names_in(shown)),
            )
        )
    return found


def _names_in(sentences: list[str]) -> str:
    return " ".join(dict.fromkeys(sentence.partition(" ")[0] for sentence in sentences))


def _broken_couple(
    sentence: str, package: Distribution, other: Distribution, rule: Mapping[str, Any]
) -> Finding:
    return Finding(
        rule["id"],
        "fatal",
        sentence,
        f"{package.name} fails: {rule['breaks']}.",
        (f"pip install --upgrade {package.name} {other.name}",),
        source=rule["source"],
    )


def _marker_environment(target: Target) -> dict[str, str]:
    version = (target.interpreter and target.interpreter.version) or platform.python_version()
    return {
        "python_version": ".".join(version.split(".")[:2]),
        "python_full_version": version if version.count(".") > 1 else f"{version}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def find_wrong_python(target: Target) -> list[Finding]:
    """Wheels for another Python, another C library or another processor than are here."""
    found = []
    for distribution in target.imported.values():
        reason = _why_not_here(distribution, target)
        if reason:
            found.append(
                Finding(
                    "dependency-missing" if "Python" in reason else "libstdcxx-too-old",
                    "fatal" if distribution.native else "risky",
                    f"{distribution.label} is {reason}",
                    "Its native modules cannot be imported here.",
                    (f"pip install --force-reinstall {distribution.name}=={distribution.version}",),
                    (distribution.folder,),
                )
            )
    return found


def _why_not_here(distribution: Distribution, target: Target) -> str:
    python = target.python
    wanted = f"cp{python[0]}{python[1]}" if python else ""
    reasons = []
    for tag in distribution.tags:
        parts = tag.split("-")
        if len(parts) != 3:
            continue
        interpreter, abi, where = parts
        is_other = wanted and re.fullmatch(r"cp\d+", interpreter) and abi not in ("none", "abi3")
        if is_other and interpreter != wanted:
            reasons.append(
                f"built for Python {interpreter[2]}.{interpreter[3:]}, not {wanted[2]}.{wanted[3:]}"
            )
        elif where.startswith("musllinux") and platform.libc_ver()[0] == "glibc":
            reasons.append("built for musl, and this machine has glibc")
        elif re.search(r"_(x86_64|aarch64|arm64)$", where) and not _fits_machine(where):
            reasons.append(f"built for {where}, and this machine is {platform.machine()}")
        else:
            return ""  # one tag that fits is enough
    return reasons[0] if reasons else ""


def _fits_machine(platform_tag: str) -> bool:
    machine = platform.machine().lower()
    alike = {"arm64": "aarch64", "amd64": "x86_64"}
    ending = re.search(r"(x86_64|aarch64|arm64)$", platform_tag)
    if ending is None or "universal2" in platform_tag:
        return True
    return alike.get(ending[1], ending[1]) == alike.get(machine, machine)


def find_unreadable(target: Target) -> list[Finding]:
    return [
        Finding(
            "dependency-missing",
            "risky",
            f"The metadata of {distribution.name} cannot be read",
            f"{distribution.problem}. What it needs and brings is not known.",
            (f"pip install --force-reinstall {distribution.name}",),
            (distribution.folder,),
        )
        for distribution in target.imported.values()
        if distribution.problem
    ]


def find_cuda_mismatch(target: Target) -> list[Finding]:
    """The driver against the CUDA that torch was built with."""
    torch = target.version_of("torch")
    if torch is None:
        return []
    gpu = target.surroundings.get("gpu") or {}
    has_nvidia = bool(gpu.get("driver") or gpu.get("kernel_module"))
    local = re.search(r"\+cu(\d+)", torch)
    family = int(local[1]) // 10 if local else _cuda_of_packages(target)
    if not has_nvidia:
        return []
    if family is None:
        if "+cpu" in torch:
            return [
                Finding(
                    "cuda-unavailable",
                    "risky",
                    f"torch {torch} is built without CUDA, and there is a GPU",
                    "torch.cuda.is_available() will be False.",
                    ("pip install torch --index-url https://download.pytorch.org/whl/cu126",),
                )
            ]
        return []
    text = str(gpu.get("driver") or gpu.get("kernel_module"))
    driver = re.search(r"(\d{3,6})\.\d", text)
    for rule in load("compatibility")["driver"]:
        if driver and rule["cuda"] == family and int(driver[1]) < int(rule["least"]):
            return [
                Finding(
                    "cuda-driver-mismatch",
                    "fatal",
                    f"torch {torch} needs NVIDIA driver {rule['least']} or newer, not {driver[0]}",
                    f"CUDA {family} does not start on an older driver.",
                    ("install a newer driver, or torch for an older CUDA",),
                    source=rule["source"],
                )
            ]
    return [Finding("cuda-driver-mismatch", "fine", f"CUDA {family} and the driver agree")]


def _cuda_of_packages(target: Target) -> int | None:
    for name in target.distributions:
        found = re.fullmatch(r"nvidia-cuda-runtime(?:-cu(\d+))?", name)
        if found:
            return int(found[1] or numbers(target.distributions[name].version)[0])
    return None
