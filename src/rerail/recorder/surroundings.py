"""The surroundings of a run: everything that may matter later and is not in the program itself.

In: the command, its folder, its environment and what the recorder added to that. Out: a dict for
surroundings.json, schema 1. Promises: nothing of the user's is run or imported; git is asked with
hooks and helpers off and a deadline; secrets are masked here, before anything is written; a part
that cannot be had is left out and named under `missing`.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rerail.platform import interpreter as interpreters
from rerail.platform import packages
from rerail.platform.bare_platform import is_bare
from rerail.platform.cgroup import GroupsOfTree
from rerail.privacy import Masker

GIT_SECONDS = 2.0
MOST_DIRTY_FILES = 200


def collect(
    command: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    added_environment: Mapping[str, str],
    masker: Masker | None = None,
) -> dict[str, Any]:
    """Look around once."""
    missing: list[str] = []
    masker = masker or Masker()

    def part(name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:  # one blind spot must not cost the rest
            missing.append(f"{name}: {type(error).__name__}: {error}")
            return None

    found: dict[str, Any] = {
        "schema": 1,
        "command": masker.mask_command(command),
        "cwd": str(cwd),
        "git": part("git", lambda: describe_git(cwd, environ)),
        "interpreter": None,
        "packages": {},
        "system": part("system", describe_system),
        "cpu": part("cpu", describe_cpu),
        "memory": part("memory", describe_memory),
        "limits": part("limits", describe_limits),
        "cgroups": part("cgroups", describe_cgroups),
        "gpu": part("gpu", describe_gpu),
        "added_environment": masker.mask_environment(added_environment),
        "environment": masker.mask_environment(environ),
    }
    interpreter = part(
        "interpreter", lambda: interpreters.find_interpreter(list(command), cwd, environ)
    )
    if interpreter is not None:
        found["interpreter"] = vars(interpreter)
        found["packages"] = part(
            "packages", lambda: packages.installed_packages(interpreter.site_packages)
        )
    found["missing"] = missing
    return found


def describe_git(cwd: Path, environ: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """Commit, branch and files that differ from it; None outside of a repository."""
    if not any((folder / ".git").exists() for folder in (cwd, *cwd.parents)):
        return None
    # fsmonitor and hooks are programs that the repository's configuration names: not run here.
    # optional locks: a `git add` of the user's must not find the index locked by us.
    base = [
        "git",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
    ]
    base += ["-c", "core.untrackedCache=false", "-C", str(cwd)]
    settings = {**(environ if environ is not None else os.environ)}
    settings.update(GIT_TERMINAL_PROMPT="0", GIT_PAGER="", LC_ALL="C")

    def git(*arguments: str) -> str:
        done = subprocess.run(
            [*base, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=True,
            env=settings,
        )
        return done.stdout.decode(errors="replace")

    try:
        commit = git("rev-parse", "HEAD").strip()
    except subprocess.CalledProcessError:
        commit = ""  # no commit yet
    found: dict[str, Any] = {"commit": commit or None}
    try:
        found["branch"] = git("rev-parse", "--abbrev-ref", "HEAD").strip()
        status = git("status", "--porcelain=v1", "--untracked-files=normal", "-z")
    except subprocess.TimeoutExpired:
        found["dirty_files"] = None
        found["note"] = f"git status took longer than {GIT_SECONDS:.0f} s"
        return found
    except subprocess.CalledProcessError:
        return found if commit else None
    files = parse_git_status(status)
    found["is_dirty"] = bool(files)
    found["dirty_files"] = files[:MOST_DIRTY_FILES]
    if len(files) > MOST_DIRTY_FILES:
        found["dirty_file_count"] = len(files)
    return found


def parse_git_status(text: str) -> list[str]:
    """`git status --porcelain -z`: two letters, a space, the path; renames bring a second path."""
    files: list[str] = []
    entries = iter(text.split("\0"))
    for entry in entries:
        if len(entry) < 4:
            continue
        files.append(entry)
        if entry[0] in "RC":
            next(entries, None)
    return files


def describe_system() -> dict[str, Any]:
    libc, libc_version = platform.libc_ver()
    found: dict[str, Any] = {
        "os": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "host": platform.node(),
        "libc": f"{libc} {libc_version}".strip() or None,
        "distribution": None,
        "container": _container(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
    }
    if sys.platform == "darwin":
        found["distribution"] = f"macOS {platform.mac_ver()[0]}"
    else:
        try:
            release = platform.freedesktop_os_release()
            found["distribution"] = release.get("PRETTY_NAME") or release.get("NAME")
        except OSError:
            pass
    return found


def _container() -> str | None:
    """Which kind of container this looks like, by the marks that they leave."""
    for path, kind in (
        ("/.dockerenv", "docker"),
        ("/run/.containerenv", "podman"),
        ("/singularity", "singularity"),
        ("/.singularity.d", "singularity"),
    ):
        if Path(path).exists():
            return kind
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if "microsoft" in platform.release().lower():
        return "wsl"
    return None


def describe_cpu() -> dict[str, Any]:
    found: dict[str, Any] = {"logical_cores": os.cpu_count()}
    if hasattr(os, "sched_getaffinity"):
        found["usable_cores"] = len(os.sched_getaffinity(0))
    text = _read("/proc/cpuinfo")
    if text is not None:
        model = re.search(r"^(?:model name|Processor|CPU part)\s*:\s*(.*)$", text, re.MULTILINE)
        flags = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
        found["model"] = model[1] if model else None
        found["flags"] = sorted(flags[1].split()) if flags else []
    elif sys.platform == "darwin":
        found["model"] = _ask("sysctl", "-n", "machdep.cpu.brand_string")
        features = _ask("sysctl", "-n", "machdep.cpu.features", "machdep.cpu.leaf7_features")
        found["flags"] = sorted((features or "").lower().split())
    return found


def describe_memory() -> dict[str, Any]:
    found: dict[str, Any] = {}
    text = _read("/proc/meminfo")
    if text is not None:
        for name, label in (
            ("total_bytes", "MemTotal"),
            ("available_bytes", "MemAvailable"),
            ("swap_total_bytes", "SwapTotal"),
            ("swap_free_bytes", "SwapFree"),
            ("commit_limit_bytes", "CommitLimit"),
            ("huge_pages_total", "HugePages_Total"),
        ):
            value = re.search(rf"^{label}:\s+(\d+)( kB)?$", text, re.MULTILINE)
            if value:
                found[name] = int(value[1]) * (1024 if value[2] else 1)
        found["overcommit_memory"] = _number("/proc/sys/vm/overcommit_memory")
        found["overcommit_ratio"] = _number("/proc/sys/vm/overcommit_ratio")
        found["max_map_count"] = _number("/proc/sys/vm/max_map_count")
        huge = _read("/sys/kernel/mm/transparent_hugepage/enabled")
        chosen = re.search(r"\[(\w+)\]", huge or "")
        found["transparent_hugepages"] = chosen[1] if chosen else None
    else:
        import psutil

        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        found.update(
            total_bytes=memory.total,
            available_bytes=memory.available,
            swap_total_bytes=swap.total,
            swap_free_bytes=swap.free,
        )
    try:
        shm = os.statvfs("/dev/shm")
        found["shm_total_bytes"] = shm.f_blocks * shm.f_frsize
        found["shm_free_bytes"] = shm.f_bavail * shm.f_frsize
    except OSError:
        pass
    return found


def describe_limits() -> dict[str, Any]:
    """Every RLIMIT, soft and hard; None where there is no limit."""
    import resource

    limits: dict[str, Any] = {}
    for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
        try:
            soft, hard = resource.getrlimit(getattr(resource, name))
        except (OSError, ValueError):
            continue
        limits[name] = {
            "soft": None if soft == resource.RLIM_INFINITY else soft,
            "hard": None if hard == resource.RLIM_INFINITY else hard,
        }
    for name, path in (
        ("threads_max", "/proc/sys/kernel/threads-max"),
        ("pid_max", "/proc/sys/kernel/pid_max"),
        ("file_max", "/proc/sys/fs/file-max"),
    ):
        value = _number(path)
        if value is not None:
            limits[name] = value
    pattern = _read("/proc/sys/kernel/core_pattern")
    if pattern is not None:
        limits["core_pattern"] = pattern
    return limits


def describe_cgroups() -> dict[str, Any] | None:
    """The groups that the command starts in, with their limits, innermost first."""
    if is_bare():
        return None
    groups = GroupsOfTree()
    try:
        groups.note_process(os.getpid())
        return {
            "memory": [
                {
                    "source": group.source,
                    "limit_bytes": group.state.limit_bytes,
                    "usage_bytes": group.state.usage_bytes,
                    "oom_kills": group.state.oom_kills,
                }
                for group in groups.memory.values()
            ],
            "tasks": [
                {"source": tasks.source, "limit": tasks.limit, "current": tasks.current}
                for tasks in groups.tasks.values()
            ],
            "membership": (_read("/proc/self/cgroup") or "").splitlines(),
        }
    finally:
        groups.close()


def describe_gpu() -> dict[str, Any] | None:
    """GPUs and their driver; None where there is none."""
    if sys.platform == "darwin":
        text = _ask("system_profiler", "SPDisplaysDataType", seconds=5.0)
        names = re.findall(r"^\s+Chipset Model: (.*)$", text or "", re.MULTILINE)
        metal = re.search(r"^\s+Metal(?: Support| Family)?: (.*)$", text or "", re.MULTILINE)
        return {"devices": [{"name": n} for n in names], "metal": metal[1] if metal else None}
    found: dict[str, Any] = {}
    driver = _read("/proc/driver/nvidia/version")
    if driver is not None or Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists():
        from rerail.recorder.vitals import gpu

        nvml = gpu.open_nvml()
        if nvml is not None:
            found.update(nvml.describe())
        if driver is not None:
            found["kernel_module"] = driver.splitlines()[0]
    rocm = _read("/sys/module/amdgpu/version")
    if rocm is not None or Path("/dev/kfd").exists():
        found["amdgpu"] = rocm or "present"
    return found or None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def _number(path: str) -> int | None:
    try:
        return int(_read(path) or "")
    except ValueError:
        return None


def _ask(*command: str, seconds: float = 2.0) -> str | None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
