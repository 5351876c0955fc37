"""A real Slurm on loopback: its own key, folders and ports; munged, slurmctld, a slurmd per node.

Needs root, as slurmd does. Everything is below one folder and ends with the block.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")


def _free_ports(count: int) -> list[int]:
    listeners = [socket.socket() for _ in range(count)]
    for listener in listeners:
        listener.bind(("127.0.0.1", 0))
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "slurmd runs as root alone"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"no Slurm: {', '.join(missing)} (apt install slurmctld slurmd slurm-client munge)"
    return None


class Slurm:
    def __init__(self, folder: Path, nodes: int = 2) -> None:
        if reason := why_not():
            pytest.skip(reason)
        self.folder = folder
        self.nodes = [f"n{at}" for at in range(1, nodes + 1)]
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        try:
            self._start()
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

    def _start(self) -> None:
        folder, host = self.folder, os.uname().nodename
        for name in ("munge", "state", *(f"spool.{node}" for node in self.nodes)):
            (folder / name).mkdir(mode=0o700)
        folder.chmod(0o755)
        key = folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        control, *ports = _free_ports(1 + len(self.nodes))
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"
            for node, port in zip(self.nodes, ports, strict=True)
        )
        (folder / "slurm.conf").write_text(
            f"""ClusterName=rerail
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=4
SlurmdTimeout=60
{nodes}
PartitionName=main Nodes={",".join(self.nodes)} Default=YES MaxTime=10 State=UP
"""
        )
        munge = ["munged", "-F", "--force", f"--key-file={key}", f"--socket={folder}/munge/socket"]
        munge += [f"--pid-file={folder}/munge/pid", f"--seed-file={folder}/munge/seed"]
        self._daemon([*munge, f"--log-file={folder}/munge/log"])
        self._daemon(["slurmctld", "-D"])
        for node in self.nodes:
            self._daemon(["slurmd", "-D", "-N", node])
        self._wait_until_idle()

    def _daemon(self, command: list[str]) -> None:
        started = subprocess.Popen(
            command,
            env=self.environ,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"{command[0]}.err").open("ab"),
            start_new_session=True,
        )
        self._running.append(started)

    def _wait_until_idle(self) -> None:
        until = time.monotonic() + 180
        while time.monotonic() < until:
            if any(daemon.poll() is not None for daemon in self._running):
                break
            listed = self.do("sinfo", "-h", "-N", "-o", "%N %t")
            if listed.stdout.split().count("idle") == len(self.nodes):
                return
            time.sleep(0.2)
        logs = "\n".join(path.read_text()[-1500:] for path in sorted(self.folder.glob("*.err")))
        pytest.skip(f"Slurm did not start here: {logs[-800:]}")

    def do(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environ, cwd=cwd, timeout=240
        )

    def close(self) -> None:
        for daemon in reversed(self._running):
            if daemon.poll() is None:
                daemon.terminate()
                try:
                    daemon.wait(15)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
