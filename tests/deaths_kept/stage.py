"""Bring about the deaths that the expectations describe, under rerail, and collect what it says.

In: expectations/*.toml and programs/. Out: one `Scene` per death. A folder of its own is made for
each; nothing is written below the repository.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
CGROUPS = Path("/sys/fs/cgroup")
PREPARED: dict[str, Path] = {}
LOCK = threading.Lock()


@dataclass
class Scene:
    output: str  # what the terminal showed, rerail's lines included
    explained: str  # `rerail explain last`
    document: dict[str, Any]  # `rerail explain last --json`
    code: int | None  # None: had to be ended for time


def load_cases() -> list[dict[str, Any]]:
    """Return every death, the defaults of its file merged in."""
    cases = []
    for path in sorted((HERE / "expectations").glob("*.toml")):
        book = tomllib.loads(path.read_text())
        for death in book["death"]:
            case = {**book.get("defaults", {}), **death, "program": path.stem}
            case["id"] = f"{path.stem}-{case['name']}"
            cases.append(case)
    return cases


def what_is_missing(case: dict[str, Any]) -> str:
    """Return why this machine cannot bring the death about, or ''."""
    needs_root = {"cgroup", "mount", "without"} & set(case)
    if needs_root and os.geteuid() != 0:
        return "needs root"
    for controller in case.get("cgroup", {}):
        if not (CGROUPS / controller.split(".")[0]).is_dir():
            return "needs cgroup v1 controllers"
    for tool in case.get("needs", []):
        if shutil.which(tool) is None:
            return f"needs {tool}"
    return ""


def with_data(case: dict[str, Any]) -> Path:
    """Return a folder with the program and its data, written once per process."""
    with LOCK:
        made = PREPARED.get(case["program"])
        if made is None:
            made = Path(tempfile.mkdtemp(prefix="deaths_kept_")) / case["program"]
            atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
            shutil.copytree(HERE / "programs" / case["program"], made)
            for line in case.get("before", []):
                run_shell(line, made)
            PREPARED[case["program"]] = made
    return made


def prepare(case: dict[str, Any], folder: Path) -> None:
    """Copy the program, write its data, apply the user's mistake, damage what is to be damaged."""
    shutil.copytree(with_data(case), folder, dirs_exist_ok=True)
    for edit in case.get("edits", []):
        path = folder / edit["file"]
        text = path.read_text()
        if text.count(edit["old"]) != 1:
            raise ValueError(
                f"{case['id']}: the edit's text is there {text.count(edit['old'])} times"
            )
        path.write_text(text.replace(edit["old"], edit["new"]))
    for line in case.get("damage", []):
        run_shell(line, folder)


def environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RERAIL", "PYTEST"))}
    env["PATH"] = f"{BIN}:{env['PATH']}"
    env["PYTHONUNBUFFERED"] = "1"
    return env


def run_shell(line: str, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{line}: {done.stderr[-800:]}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def heed_the_terminal() -> None:
    """Undo what a background shell or nohup has set: a terminal's programs heed these."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def descendants(pid: int) -> list[tuple[int, str]]:
    """Return (pid, command line) of every process below `pid`, the oldest first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found: list[tuple[int, str]] = []
    todo = [pid]
    while todo:
        for child in sorted(parents.get(todo.pop(0), [])):
            todo.append(child)
            try:
                words = (Path("/proc") / str(child) / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found.append((child, b" ".join(words).decode(errors="replace").strip()))
    return found


def send(case: dict[str, Any], pid: int) -> None:
    """Send the death's signal to whom it is meant for."""
    wanted = case["signal"]
    time.sleep(wanted.get("later_s", 0))  # into the work that follows the line
    number = signal.Signals[wanted["name"]]
    if wanted["to"] == "session":
        os.killpg(pid, number)
        return
    pattern = re.compile(wanted["to"])
    own = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    matches = [p for p, line in [(pid, own), *descendants(pid)] if pattern.search(line)]
    os.kill(matches[wanted.get("index", 0)], number)


def run(case: dict[str, Any], folder: Path, plain: bool = False) -> tuple[str, int | None]:
    """Run the death's command, under rerail or plain; return its output and exit code."""
    rerail = [] if plain else ["rerail", "run", *case.get("options", []), "--"]
    command_line = case["command"].replace("{port}", str(case.get("port") or free_port()))
    inner = "exec " + shlex.join([*rerail, *shlex.split(command_line)])
    lines = [case["shell"], inner] if "shell" in case else [inner]
    if "without" in case:  # root who lacks these capabilities
        wrapper = f"setpriv --bounding-set={case['without']} --inh-caps=-all "
        lines[-1] = inner.replace("exec ", f"exec {wrapper}", 1)
    groups = []
    for setting, value in case.get("cgroup", {}).items():
        controller = setting.split(".")[0]
        group = CGROUPS / controller / f"deaths_kept_{os.getpid()}_{case['id']}"
        group.mkdir()
        (group / setting).write_text(str(value))
        groups.append(group)
        lines.insert(0, f"echo $$ > {group}/cgroup.procs")
    command = ["bash", "-ec", "\n".join([*case.get("mount", []), *lines])]
    if "mount" in case:
        command = ["unshare", "-m", *command]
    log = folder.parent / f"{folder.name}.log"
    blocker = None
    if "port" in case:
        blocker = socket.create_server(("127.0.0.1", case["port"]))
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=out, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=heed_the_terminal,
        )  # fmt: skip
    ends = time.monotonic() + case.get("seconds", 200)
    after = re.compile(case["signal"]["after"]) if "signal" in case else None
    try:
        while process.poll() is None and time.monotonic() < ends:
            if after and after.search(log.read_text(errors="replace")):
                send(case, process.pid)
                after = None
            time.sleep(0.05)
        code = process.poll()
        if code is None:
            for child, _ in reversed(descendants(process.pid)):
                os.kill(child, signal.SIGKILL)
            process.kill()
            process.wait()
    finally:
        if blocker:
            blocker.close()
        for group in groups:
            for _ in range(100):
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)
    return log.read_text(errors="replace"), code


def play(case: dict[str, Any], folder: Path) -> Scene:
    """Bring one death about under rerail and ask why."""
    prepare(case, folder)
    output, code = run(case, folder)

    def ask(*more: str) -> str:
        done = subprocess.run(
            ["rerail", "explain", "last", *more], cwd=folder, env=environment(),
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout or done.stderr

    return Scene(output, ask(), json.loads(ask("--json")), code)


def fill_in_lines(pattern: str, folder: Path) -> str:
    """Replace {{FILE|TEXT}} with the number of the line of FILE that holds TEXT."""

    def number(found: re.Match[str]) -> str:
        lines = (folder / found[1]).read_text().splitlines()
        at = [n for n, line in enumerate(lines, 1) if found[2] in line]
        if len(at) != 1:
            raise ValueError(f"{found[0]}: {len(at)} lines")
        return str(at[0])

    return re.sub(r"\{\{([^|{}]+)\|(.+?)\}\}", number, pattern)


def first_fix(explained: str) -> str:
    """Return the fix line of the screen, with what is continued below it."""
    lines, taking = [], False
    for line in explained.splitlines():
        if re.match(r"\s+fix\s", line):
            taking = True
        elif taking and re.match(r"\s{1,3}\S|\S", line):
            break
        if taking:
            lines.append(line.strip())
    return " ".join(lines)


def judge(case: dict[str, Any], scene: Scene, folder: Path) -> list[str]:
    """Return what is wrong with rerail's answer, by the letter of the expectation."""
    document = scene.document
    causes = [cause["id"] for cause in document.get("causes", [])]
    leading = causes[0] if causes else "none"
    faults = []
    if scene.code is None:
        faults.append("did not end in time")
    accepted = ["none" if case["label"] == "healthy" else case["label"], *case.get("also_ok", [])]
    if leading not in accepted:
        faults.append(f"cause: {leading}, expected {case['label']}")
    if case["label"] == "healthy":
        return faults
    headline = document.get("headline") or document["outcome"].get("summary", "")
    for fact in ("who", "what", "where", "when", "how_much"):
        if fact in case:
            pattern = fill_in_lines(case[fact], folder)
            if not re.search(pattern, headline, re.IGNORECASE):
                faults.append(f"{fact}: nothing like {pattern}")
    for claim in case.get("never", []):
        if re.search(claim, headline, re.IGNORECASE):
            faults.append(f"claims {claim}")
    fix = first_fix(scene.output) or first_fix(scene.explained)  # what the person saw
    if "fix" in case and not re.search(case["fix"], fix, re.IGNORECASE):
        faults.append(f"fix: nothing like {case['fix']}")
    for claim in case.get("fix_never", []):
        if re.search(claim, fix, re.IGNORECASE):
            faults.append(f"fix says {claim}")
    return faults
