"""What holds for every test of the repository.

Property tests draw the same examples in every `make test`, other ones in every `make test-slow`: a
check that every change has to pass must not fail by the luck of a draw; looking for new
counterexamples is work of its own, with more of them.

A shell ignores SIGINT and SIGQUIT in what it starts in the background, nohup SIGHUP, and whoever is
started so hands that on: many tests here send those signals, and `nohup make test &` is to be no
other test. The same goes for variables that change what Python, OpenMP, a terminal or rerail itself
does: the tests start programs without them, whatever the shell has set.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made says something of the machine, not of what is tested.
_AT_ANY_PACE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **_AT_ANY_PACE)
settings.register_profile("search", max_examples=500, **_AT_ANY_PACE)
settings.load_profile("same")

for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)

CHANGES_PROGRAMS = ("PYTHON", "RERAIL_", "KMP_", "OMP_", "GOMP_", "MKL_", "LD_PRELOAD", "MALLOC_")
CHANGES_OUTPUT = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"}
CHANGES_OUTPUT |= {"GITHUB_STEP_SUMMARY"}  # every run of a test would be appended to it
# Where the interpreter finds its modules: some machines need these to have any.
KEPT = {"PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX"}
WORKLOADS = Path(__file__).parent / "workloads"


def _forget_variables() -> None:
    for name in set(os.environ) - KEPT:
        if name.startswith(CHANGES_PROGRAMS) or name in CHANGES_OUTPUT:
            del os.environ[name]
    os.environ["RERAIL_CONFIG"] = ""  # nor what its user has set in a file


_forget_variables()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Imports of earlier tests leave variables too: sklearn's sets KMP_DUPLICATE_LIB_OK."""
    _forget_variables()
    if item.get_closest_marker("torch") is not None and find_spec("torch") is None:
        pytest.skip("torch is not installed (TRAINING=no)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "TEST_UNDER_EMULATION" not in os.environ:
        return
    sys.path.insert(0, str(Path(__file__).parent / "tests"))
    from under_emulation import be_patient, why_not

    be_patient()
    for item in items:
        if why := why_not(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=why))


class NeedsTraining(pytest.Module):
    """A file with tests of a trainer, where TRAINING=no left out what it trains with."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        pytest.skip("torch is not installed (TRAINING=no)", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if WORKLOADS in module_path.parents and find_spec("torch") is None:
        return NeedsTraining.from_parent(parent, path=module_path)
    return None


@pytest.fixture(scope="session")
def unshare() -> list[str]:
    """The command that makes namespaces; without root it takes one of users around the others."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    return ["unshare"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]


@pytest.fixture
def mount_tmpfs(tmp_path: Path, unshare: list[str]) -> Iterator[Callable[[str], Path]]:
    """mount_tmpfs(options): an empty file system of its own, such as one of "size=2m".

    Who may not mount may still do so in a namespace of their own, if the kernel allows those to
    everybody: a process holds it, and the folder is reached through that process's /proc.
    """
    folder = tmp_path / "mounted"
    holders: list[subprocess.Popen[bytes]] = []

    def mount(options: str) -> Path:
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return folder
        script = '"$@" && echo mounted && exec cat'
        holder = subprocess.Popen(
            [*unshare, "--mount", "sh", "-c", script, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        holders.append(holder)
        assert holder.stdout is not None and holder.stderr is not None
        if holder.stdout.readline() != b"mounted\n":
            said = holder.stderr.read().decode(errors="replace").strip()
            pytest.skip(f"no file system can be mounted here: {said}")
        return Path(f"/proc/{holder.pid}/root{folder}")

    yield mount
    for holder in holders:
        holder.communicate(timeout=60)
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
