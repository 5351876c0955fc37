"""The wheels as people get them: in a Debian without a compiler, on musl, by uvx and pipx.

Built by the environment of `make wheels`; skipped where that was not made.
"""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUILDER = ROOT / ".venv-wheels" / "bin" / "python"
LIBRARY = "rerail/agent/native.abi3.so"
DIES = """
import ctypes
def train():
    ctypes.string_at(8)
train()
"""
# What pip was told on this machine; the rest of the environment is not taken along.
FOR_PIP = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_TRUSTED_HOST")
FOR_PIP += ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY", "no_proxy", "NO_PROXY")


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist and the wheels of Linux that a test here can run."""
    if not BUILDER.exists():
        pytest.skip("no cross-compiler here: make wheels sets it up")
    folder = tmp_path_factory.mktemp("dist")
    command = [BUILDER, ROOT / "scripts" / "build-wheels", "--once", "--out", folder]
    only = ["--only", "manylinux_2_17_", "--only", "musllinux_1_2_x86_64"]
    done = subprocess.run([*command, *only], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def wheel(dist: Path, kind: str) -> Path:
    (found,) = dist.glob(f"*{kind}*.whl")
    return found


@pytest.fixture
def clean_root(tmp_path: Path) -> Iterator[Path]:
    """A Debian with Python and without a compiler; what a test leaves in its /trial is removed."""
    yield from _folder_in_root(tmp_path, "amd64")


@pytest.fixture
def arm64_root(tmp_path: Path) -> Iterator[Path]:
    """A Debian of arm64 under emulation, that of `make test-arm64`: it has a compiler."""
    yield from _folder_in_root(tmp_path, "arm64")


def _folder_in_root(tmp_path: Path, arch: str) -> Iterator[Path]:
    script = ROOT / "scripts" / "debian-root"
    packages = ["gcc", "g++", "libc6-dev", "procps"] if arch == "arm64" else []
    command = [script, "make", arch, "bookworm", *packages]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode == 77:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    work = Path(made.stdout.strip()) / "trial" / tmp_path.name
    work.mkdir(parents=True)
    yield work
    shutil.rmtree(work)


def in_root(work: Path, script: str) -> list[str]:
    """A command that runs a script in the root, in the folder of the test."""
    root = work.parents[1]
    environ = {name: os.environ[name] for name in FOR_PIP if name in os.environ}
    environ |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    settings = [f"{name}={value}" for name, value in environ.items()]
    inside = ["env", "-i", *settings, "sh", "-euc", f"cd /trial/{work.name}\n{script}"]
    return [str(ROOT / "scripts" / "debian-root"), "run", str(root), *inside]


def check_that_a_segfault_is_recorded(wheel: Path, root: Path, script: str) -> None:
    name = Path(shutil.copy(wheel, root)).name
    (root / "train.py").write_text(DIES)
    script += f"""
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: {name}
status=0
venv/bin/rerail run --home store --json -- python3 train.py || status=$?
exit $status
"""
    done = subprocess.run(in_root(root, script), capture_output=True, text=True, timeout=900)

    assert done.returncode == 139, done.stderr
    document = json.loads(done.stdout[done.stdout.index("{") :])
    assert document["causes"][0]["id"] == "native-segfault"
    assert "train.py:4 train()" in document["headline"]
    (crashes,) = root.glob("store/runs/*/crashes.json")
    frames = json.loads(crashes.read_text())
    assert json.dumps(frames).count('"address"') > 10


def test_a_wheel_needs_no_compiler_and_records_a_segfault(dist: Path, clean_root: Path) -> None:
    found = wheel(dist, "manylinux_2_17_x86_64")
    check_that_a_segfault_is_recorded(found, clean_root, "! command -v cc gcc clang")


def test_the_arm64_wheel_records_a_segfault_under_emulation(dist: Path, arm64_root: Path) -> None:
    found = wheel(dist, "manylinux_2_17_aarch64")
    check_that_a_segfault_is_recorded(found, arm64_root, "test $(uname -m) = aarch64")


def test_an_sdist_without_a_compiler_says_so_loudly(dist: Path, clean_root: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    name = Path(shutil.copy(sdist, clean_root)).name
    script = f"""
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check {name}
venv/bin/rerail run --home store -- python3 -c 'print("trained")'
"""
    said = in_terminal(in_root(clean_root, script))

    assert "rerail is installed WITHOUT its C library" in said
    assert "rerail: no C library: a crash leaves no stacks" in said
    assert "trained" in said


def in_terminal(command: list[str]) -> str:
    """What a person sees of a command, up to its end."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    seen = b""
    while select.select([master], [], [], 600)[0]:
        try:
            data = os.read(master, 65536)
        except OSError:  # the end of a terminal
            break
        seen += data
    os.close(master)
    _, status = os.waitpid(pid, 0)
    assert status == 0, seen.decode(errors="replace")
    return seen.decode(errors="replace")


DIES_ON_MUSL = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void write_through_null(void) { *(volatile int *)8 = 1; }
__attribute__((noinline)) void *train(void *a) { write_through_null(); return a; }
int main(int argc, char **argv) {
  void *(*start)(void);
  pthread_t thread;
  void *library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) return 3;
  *(void **)&start = dlsym(library, "rerail_start");
  if (start == NULL || start() == NULL) return 4;
  if (argc > 2) { pthread_create(&thread, NULL, train, NULL); pthread_join(thread, NULL); }
  train(NULL);
  return 5;
}
"""


@pytest.mark.parametrize("place", ["main", "thread"])
def test_the_musl_library_records_a_segfault(dist: Path, tmp_path: Path, place: str) -> None:
    """In a program of musl's: there is no Python of that kind in the registries."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl here: apt install musl-tools")
    with zipfile.ZipFile(wheel(dist, "musllinux")) as archive:
        library = archive.extract(LIBRARY, tmp_path)
    source, program, folder = tmp_path / "die.c", tmp_path / "die", tmp_path / "agent"
    source.write_text(DIES_ON_MUSL)
    # Tables for unwinding, which musl-gcc leaves out unless asked; a program without -pie has the
    # addresses of its own file.
    tables = ["-fasynchronous-unwind-tables", "-Wl,--eh-frame-hdr", "-no-pie"]
    subprocess.run(["musl-gcc", "-O1", *tables, "-o", program, source], check=True)
    folder.mkdir()
    died = subprocess.run(
        [program, library, *(["thread"] if place == "thread" else [])],
        env={"RERAIL_AGENT": str(folder)},
        timeout=180,
    )

    assert died.returncode == -11
    (crash,) = folder.glob("*.crash")
    lines = crash.read_text(errors="replace").splitlines()
    assert "signal 11 SIGSEGV" in lines and lines[-1] == "end"
    assert not [line for line in lines if line.startswith("note")]
    frames = [int(line.split()[1], 16) for line in lines if line.startswith("frame 0x")]
    symbols = subprocess.run(
        ["nm", "-n", "--defined-only", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    table = [(int(at, 16), name) for at, _, name in (line.split() for line in symbols)]
    names = [[name for start, name in table if start <= at][-1] for at in frames]
    assert names[:2] == ["write_through_null", "train"]


DIES_ON_A_PAINTED_STACK = """
import ctypes, faulthandler, mmap, os, signal
faulthandler.enable()
size = 4 << 20
region = mmap.mmap(-1, size)  # shared with the child
address = ctypes.addressof(ctypes.c_char.from_buffer(region))
ctypes.memset(address, 0xA5, size)
class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
if os.fork() == 0:
    ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(address, 0, size)), None)
    ctypes.string_at(8)
status = os.wait()[1]
untouched = next(at for at in range(size) if region[at] != 0xA5)
print(os.WTERMSIG(status), size - untouched)
"""


def test_the_handler_needs_a_small_part_of_its_stack(dist: Path, tmp_path: Path) -> None:
    """The unwinder of the wheels would need a megabyte by itself, in every thread."""
    with zipfile.ZipFile(wheel(dist, "manylinux_2_17_x86_64")) as archive:
        archive.extractall(tmp_path)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "rerail" / "agent" / "stub")}
    environ["RERAIL_AGENT"] = str(tmp_path)
    for python in ["python3", *sorted(Path("/usr/bin").glob("python3.*[0-9]")), sys.executable]:
        done = subprocess.run(
            [python, "-c", DIES_ON_A_PAINTED_STACK], env=environ, capture_output=True, text=True
        )
        number, used = map(int, done.stdout.split())
        assert (number, used < 32 * 1024) == (11, True), (python, used)
    assert [path for path in tmp_path.glob("*.crash") if path.stat().st_size > 0]


@pytest.mark.parametrize("how", ["uvx", "pipx"])
def test_it_runs_without_being_installed(dist: Path, tmp_path: Path, how: str) -> None:
    package = str(wheel(dist, "manylinux_2_17_x86_64"))
    command = {
        "uvx": ["uv", "tool", "run", "--python", sys.executable, "--from", package],
        "pipx": ["pipx", "run", "--python", sys.executable, "--spec", package],
    }[how]
    program = shutil.which(command[0]) or str(Path(sys.executable).parent / command[0])
    if not Path(program).exists():
        pytest.skip(f"no {command[0]} here")
    environ = {**os.environ, "HOME": str(tmp_path), "PIPX_HOME": str(tmp_path / "pipx")}
    die = ["rerail", "run", "--home", str(tmp_path / "store"), "--", sys.executable, "-c", DIES]
    done = subprocess.run(
        [program, *command[1:], *die], env=environ, capture_output=True, text=True, timeout=300
    )

    assert "SIGSEGV in <string>:4 train()" in done.stderr, done.stderr
    assert done.returncode in (-11, 139)
