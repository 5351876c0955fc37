"""Hosts on one machine: network namespaces with a bridge between them, with their own names.

The bridge has a namespace too, so nothing of this machine's own network is touched. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

SWITCH_ADDRESS = "10.77.3.254"


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "ip (iproute2) or unshare (util-linux) is not installed"
    name = f"rr{os.getpid()}p"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


class Hosts:
    """`with Hosts("a", "b", "c") as hosts:` and everything is gone afterwards."""

    def __init__(self, *names: str) -> None:
        if reason := why_not():
            pytest.skip(reason)
        self.names = names
        self._prefix = f"rr{os.getpid()}"
        self._switch = f"{self._prefix}sw"
        self._made: list[str] = []
        self._running: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Hosts:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _build(self) -> None:
        self._add(self._switch)
        inside = ["ip", "-n", self._switch]
        _do(*inside, "link", "add", "br0", "type", "bridge")
        _do(*inside, "addr", "add", f"{SWITCH_ADDRESS}/24", "dev", "br0")
        for device in ("lo", "br0"):
            _do(*inside, "link", "set", device, "up")
        for at, name in enumerate(self.names):
            space = self.space(name)
            self._add(space)
            _do(*inside, "link", "add", f"p{at}", "type", "veth", "peer", "eth0", "netns", space)
            _do(*inside, "link", "set", f"p{at}", "master", "br0", "up")
            _do("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _do("ip", "-n", space, "link", "set", device, "up")

    def _add(self, space: str) -> None:
        _do("ip", "netns", "add", space)
        self._made.append(space)

    def space(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def address(self, name: str) -> str:
        return f"10.77.3.{self.names.index(name) + 1}"

    def start(
        self, name: str, command: Sequence[str], environ: Mapping[str, str], cwd: Path
    ) -> subprocess.Popen[str]:
        """The command on this host, which it takes for the machine."""
        wrapped = ["ip", "netns", "exec", self.space(name), "unshare", "--uts", "sh", "-c"]
        wrapped += ['hostname "$0"; exec "$@"', name, *command]
        process = subprocess.Popen(
            wrapped,
            env=dict(environ),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def on_switch(self, command: Sequence[str], cwd: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._switch, *command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def cut_off(self, name: str) -> None:
        """As if somebody had pulled the cable at the switch."""
        _do("ip", "-n", self._switch, "link", "set", f"p{self.names.index(name)}", "down")

    def connect(self, name: str) -> None:
        _do("ip", "-n", self._switch, "link", "set", f"p{self.names.index(name)}", "up")

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, 9)
                except OSError:
                    pass
                process.wait()
        for space in reversed(self._made):
            self._end_all_in(space)
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def _end_all_in(self, space: str) -> None:
        """Whoever is left in a namespace that we made is ours."""
        left = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
        for pid in left.stdout.split():
            try:
                os.kill(int(pid), 9)
            except OSError:
                pass


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
