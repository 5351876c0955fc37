"""The C code alone: sanitizers, valgrind, warnings, what the library needs and shows."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from agent_runs import HERE

import rerail.agent
from rerail.agent import native_library
from rerail.agent.stub import rerail_layout as layout

NATIVE = Path(rerail.agent.__file__).parent / "native"
PURE = [NATIVE / "text.c", NATIVE / "machine.c"]


def compile_driver(target: Path, *flags: str) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    sources = [str(path) for path in (HERE / "sanitized.c", *PURE)]
    command = ["cc", "-g", "-O1", "-pthread", f"-I{NATIVE}", *flags, "-o", str(target), *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 and "cannot find" in done.stderr:
        pytest.skip(f"this compiler lacks the library for {flags}")
    assert done.returncode == 0, done.stderr
    return target


def test_under_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    driver = compile_driver(
        tmp_path / "driver", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    done = subprocess.run([driver], capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout) == (0, "all well\n"), done.stderr


def test_under_valgrind(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind here")
    driver = compile_driver(tmp_path / "driver")
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", str(driver)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)

    assert (done.returncode, done.stdout) == (0, "all well\n"), done.stderr


def test_whole_library_under_valgrind(tmp_path: Path) -> None:
    """Start, fork, a thread, a crash: the handler itself runs inside valgrind."""
    library = native_library()
    if shutil.which("valgrind") is None or library is None:
        pytest.skip("no valgrind or no library here")
    source = tmp_path / "drive.c"
    source.write_text("""
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void *rerail_start(void); int rerail_keep_place(void); void rerail_thread_enter(void);
void rerail_goodbye(int);
static void *in_thread(void *a) { rerail_thread_enter(); return a; }
int main(void) {
  pthread_t thread; int status;
  if (rerail_start() == NULL) return 3;
  rerail_keep_place();
  pthread_create(&thread, NULL, in_thread, NULL); pthread_join(thread, NULL);
  if (fork() == 0) { rerail_start(); rerail_goodbye(1); _exit(0); }
  wait(&status);
  if (fork() == 0) { raise(SIGABRT); _exit(4); }
  wait(&status);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 0 : 5;
}
""")
    program = tmp_path / "drive"
    subprocess.run(["cc", "-g", "-o", program, source, library, "-pthread"], check=True)
    folder = tmp_path / "agent"
    folder.mkdir()
    command = ["valgrind", "-q", "--error-exitcode=9", "--child-silent-after-fork=no", str(program)]
    done = subprocess.run(
        command,
        env={"RERAIL_AGENT": str(folder), "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("*.box"))) == 2
    assert [path for path in folder.glob("*.crash") if path.stat().st_size > 0]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compiles_without_a_warning(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    for source in sorted(NATIVE.glob("*.c")):
        flags = ["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c"]
        command = [compiler, *flags, "-o", str(tmp_path / "out.o"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_needs_nothing_but_the_c_library_and_shows_only_its_own() -> None:
    library = native_library()
    if library is None or shutil.which("readelf") is None:
        pytest.skip("no library or no readelf here")
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "NEEDED" in line]
    assert all(name.startswith(("libc.", "ld-linux", "libpthread", "libdl")) for name in needed)
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True
    ).stdout
    names = {line.split()[-1] for line in shown.splitlines()}
    assert {name for name in names if not name.startswith("rerail_")} == {"pthread_create"}


def test_stub_and_library_agree_on_the_layout() -> None:
    library = native_library()
    if library is None:
        pytest.skip("the agent's C library was not built here")
    function = ctypes.CDLL(str(library)).rerail_head_layout
    function.restype = ctypes.POINTER(ctypes.c_void_p)
    fields = function()
    found = {}
    for position in range(0, 200, 2):
        if not fields[position]:
            break
        name = ctypes.cast(fields[position], ctypes.c_char_p).value
        assert name is not None
        found[name.decode()] = fields[position + 1] or 0

    assert found == layout.HEAD
    header = (NATIVE / "agent.h").read_text()
    assert f"#define BOX_VERSION {layout.VERSION}\n" in header
    assert f"#define BOX_SIZE {layout.SIZE}\n" in header
    assert f"#define AGENT_INTERFACE {layout.INTERFACE}\n" in header
    assert header.count("TROUBLE_") == len(layout.TROUBLES)


def test_built_library_is_up_to_date() -> None:
    """An editable install keeps the library that was built last: sources may have moved on."""
    library = native_library()
    if library is None:
        pytest.skip("the agent's C library was not built here")
    newest = max(path.stat().st_mtime for path in NATIVE.glob("*.[ch]"))
    assert library.stat().st_mtime >= newest, "build it again: pip install --editable ."


def test_a_library_of_other_sources_is_left_out() -> None:
    """It would see other structs than the stub, and end the user's program."""
    stub = Path(rerail.agent.__file__).parent / "stub"
    libc = ctypes.util.find_library("c")
    if libc is None:
        pytest.skip("no C library can be named here")
    program = (
        "import rerail_native as native\n"
        "try:\n"
        f"    native.load({libc!r})\n"
        "except OSError:\n"
        "    print('left out', native.library, native.wrap(len).__wrapped__ is len)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(stub)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "left out None True\n", done.stderr
