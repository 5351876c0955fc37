"""The stage of a death: its folder, its limits, what is done to it, and what rerail said.

In: one entry of expectations/*.toml. Out: a Death with the recorded text, JSON and exit code.
Promises: limits, namespaces and processes of a death end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import tomllib

HERE = Path(__file__).parent
CGROUPS = Path("/sys/fs/cgroup")
LIMIT_SECONDS = 150


@dataclass
class Death:
    """What the run and `rerail explain` gave."""

    folder: Path
    returncode: int | None = None
    output: str = ""
    text: str = ""
    document: dict = field(default_factory=dict)
    victim: str = ""

    @property
    def headline(self) -> str:
        return str(self.document.get("headline", ""))

    @property
    def outcome(self) -> str:
        return str(self.document.get("outcome", {}).get("kind", ""))

    @property
    def leading(self) -> dict:
        causes = self.document.get("causes") or [{}]
        return causes[0]

    def fixes(self) -> str:
        """Return the lines `fix` of the text and the first remedy of the leading cause."""
        lines, inside = [], False
        for line in self.text.splitlines():
            if re.match(r"\s{1,4}\w+\s", line):
                inside = line.strip().startswith("fix")
            if inside:
                lines.append(line)
        for remedy in self.leading.get("remedies", [])[:1]:
            lines += [remedy.get("title", ""), *map(str, remedy.get("change", []))]
        return "\n".join(lines)


def load() -> list[dict]:
    """Return every death of every program, with its program and preparation."""
    found = []
    for path in sorted((HERE / "expectations").glob("*.toml")):
        document = tomllib.loads(path.read_text())
        for entry in document["death"]:
            entry["program"] = document["program"]
            entry["prepare"] = document.get("prepare", [])
            entry["never_shown"] = document.get("never_shown", []) + entry.get("never_shown", [])
            found.append(entry)
    return found


def interpreter() -> str:
    return os.environ.get("DEATHS_PYTHON", sys.executable)


def has_module(name: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([interpreter(), "-c", code]).returncode == 0


def missing(death: dict) -> str:
    """Return why this death cannot be brought about here, or nothing."""
    limits = death.get("limits", {})
    if sys.platform != "linux":
        return "limits and signals are brought about as on Linux"
    if limits and os.geteuid() != 0 and set(limits) - {"open_files", "address_space_mib"}:
        return "needs root"
    for key, controller in (("memory_mib", "memory"), ("pids", "pids")):
        if key in limits and not (CGROUPS / controller / "cgroup.procs").exists():
            return f"needs the {controller} controller of cgroup v1"
    if "tmpfs" in limits and subprocess.run(["unshare", "-m", "true"]).returncode:
        return "needs mount namespaces"
    if "without_override" in limits and not shutil.which("setpriv"):
        return "needs setpriv"
    for name in ["torch", "lightgbm", "tqdm", "yaml", *death.get("needs", [])]:
        if not has_module(name):
            return f"{name} is not installed"
    for name in death.get("absent", []):
        if has_module(name):
            return f"{name} is installed"
    return ""


def resolve(pattern: str, program: str, values: dict[str, str]) -> str:
    """Replace `@file.py~source text@` by that file and line, and `{name}` by its value."""

    def line_of(match: re.Match[str]) -> str:
        name, text = match.group(1), match.group(2)
        path = next((HERE / "programs" / program).rglob(name))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if text in line:
                return rf"{re.escape(name)}:{number}\b"
        raise AssertionError(f"{path} has no line with {text!r}")

    pattern = re.sub(r"@([\w.]+\.py)~(.+?)@", line_of, pattern)
    for name, value in values.items():
        pattern = pattern.replace("{" + name + "}", value)
    return pattern


@contextlib.contextmanager
def cgroup(controller: str, name: str, knob: str, value: int):
    """Make a cgroup with one limit; yield the file to write a pid to."""
    group = CGROUPS / controller / name
    group.mkdir()
    try:
        (group / knob).write_text(str(value))
        yield group / "cgroup.procs"
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


@contextlib.contextmanager
def limited(death: dict, folder: Path, argv: list[str]):
    """Yield the command line that runs `argv` under the limits of this death."""
    limits, script = death.get("limits", {}), []
    with contextlib.ExitStack() as stack:
        name = f"deaths-{os.getpid()}-{death['program']}-{death['name']}"
        if "memory_mib" in limits:
            size = limits["memory_mib"] << 20
            knob = "memory.limit_in_bytes"
            script.append(f"echo $$ > {stack.enter_context(cgroup('memory', name, knob, size))}")
        if "pids" in limits:
            procs = stack.enter_context(cgroup("pids", name, "pids.max", limits["pids"]))
            script.append(f"echo $$ > {procs}")
        for place, size in limits.get("tmpfs", {}).items():
            script.append(f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(place)}")
        if "open_files" in limits:
            script.append(f"ulimit -n {limits['open_files']}")
        if "address_space_mib" in limits:
            script.append(f"ulimit -v {limits['address_space_mib'] << 10}")
        prefix = []
        if "without_override" in limits:  # root obeys the mode of files then, as others do
            rights = "-dac_override,-dac_read_search"
            prefix = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
        if not script:
            yield [*prefix, *argv]
            return
        script.append("exec " + shlex.join([*prefix, *argv]))
        shell = ["bash", "-ec", "\n".join(script)]
        yield ["unshare", "-m", *shell] if "tmpfs" in limits else shell


def target_pid(rerail_pid: int, who: str, script: str) -> int | None:
    """Return the pid of the training's main process, or of its youngest worker."""
    rerail = psutil.Process(rerail_pid)

    def is_program(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            return "python" in line[0] and any(script in word for word in line[1:3])
        return False

    below = sorted(rerail.children(recursive=True), key=lambda p: p.create_time())
    mains = [p for p in below if is_program(p) and "--" not in p.cmdline()]
    if not mains:
        return None
    if who == "main":
        return mains[0].pid
    workers = [
        p
        for p in mains[0].children(recursive=True)
        if not any("resource_tracker" in word for word in p.cmdline())
    ]
    return workers[-1].pid if workers else None


def script_of(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-m") + 1] if "-m" in words else words[1]


def act(action: str, pid: int, command: str) -> str:
    """Do what the harness does to this death; return the pid that it was done to."""
    name, who = action.split()
    number = signal.Signals[name]
    if who == "group":
        os.killpg(pid, number)
        return "group"
    target = target_pid(pid, who, script_of(command))
    if target is None:
        return ""
    os.kill(target, number)
    return str(target)


def watch(process: subprocess.Popen, death: dict, log: Path) -> str:
    """Wait for the end; act once the line has come. Return who was hit."""
    pattern = re.compile(death["after_line"]) if "after_line" in death else None
    victim, deadline = "", time.monotonic() + LIMIT_SECONDS
    while process.poll() is None:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "timeout"
        if pattern and not victim and pattern.search(log.read_text(errors="replace")):
            victim = act(death["action"], process.pid, death["command"])
        time.sleep(0.05)
    return victim


def end_leftovers(folder: Path) -> None:
    """End processes that still work in the folder of this death."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(folder):
                process.kill()


@contextlib.contextmanager
def stage(death: dict, folder: Path):
    """Copy the program, prepare it, and yield the values that its texts may name."""
    shutil.copytree(HERE / "programs" / death["program"], folder, dirs_exist_ok=True)
    env = environment()
    for command in [*death["prepare"], *death.get("before", [])]:
        subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=env, check=True, capture_output=True
        )
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield {"port": str(server.getsockname()[1])}


def environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "RERAIL_", "COV_"))}
    env["PATH"] = f"{Path(interpreter()).parent}{os.pathsep}{env['PATH']}"
    env.pop("PYTHONPATH", None)
    return env


def die(death: dict, folder: Path) -> tuple[Death, dict[str, str]]:
    """Run the death under `rerail run` and ask `rerail explain` about it."""
    rerail = str(Path(sys.executable).parent / "rerail")
    with stage(death, folder) as values:
        command = death["command"].replace("{port}", values["port"])
        options = []
        if "stall" in death:
            options = ["--stall", str(death["stall"])]
            options += ["--on-stall", death.get("on_stall", "kill")]
        argv = [rerail, "run", *options, "--", *shlex.split(command)]
        log, env = folder / "terminal.txt", environment()
        result = Death(folder)
        with limited(death, folder, argv) as line, log.open("wb") as out:
            process = subprocess.Popen(
                line,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            result.victim = watch(process, death, log)
            result.returncode = process.returncode
            end_leftovers(folder)
        result.output = log.read_text(errors="replace")
        explain = [rerail, "explain", "last"]
        asked = subprocess.run([*explain, "--json"], cwd=folder, env=env, capture_output=True)
        with contextlib.suppress(ValueError):
            result.document = json.loads(asked.stdout)
        shown = subprocess.run(explain, cwd=folder, env=env, capture_output=True, text=True)
        result.text = shown.stdout
        return result, values
