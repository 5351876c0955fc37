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
    return compile_program(target, HERE / "sanitized.c", *PURE, flags=flags)


def compile_with_sanitizers(target: Path, *sources: Path) -> Path:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return compile_program(target, *sources, flags=flags)


def compile_program(target: Path, *sources: Path, flags: tuple[str, ...]) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    words = ["-g", "-O1", "-pthread", f"-I{NATIVE}", *flags, "-o", str(target), *map(str, sources)]
    done = subprocess.run(["cc", *words], capture_output=True, text=True, timeout=240)
    if done.returncode != 0 and "cannot find" in done.stderr:
        pytest.skip(f"this compiler lacks the library for {flags}")
    assert done.returncode == 0, done.stderr
    return target


def test_under_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    driver = compile_with_sanitizers(tmp_path / "driver", HERE / "sanitized.c", *PURE)
    done = subprocess.run([driver], capture_output=True, text=True, timeout=240)

    assert (done.returncode, done.stdout) == (0, "all well\n"), done.stderr


def test_under_valgrind(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind here")
    driver = compile_driver(tmp_path / "driver")
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", str(driver)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)

    assert (done.returncode, done.stdout) == (0, "all well\n"), done.stderr


# Start, fork, a thread, a crash: the handler itself runs.
DRIVE = """
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
"""


def drive(tmp_path: Path, words: list[str], **environ: str) -> None:
    """Run a program with the library in it, under what `words` say; it leaves two boxes."""
    folder = tmp_path / "agent"
    folder.mkdir()
    done = subprocess.run(
        words,
        env={"RERAIL_AGENT": str(folder), "PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(folder.glob("*.box"))) == 2
    (crash,) = (path for path in folder.glob("*.crash") if path.stat().st_size > 0)
    assert crash.read_text(errors="replace").splitlines()[-1] == "end"


def test_whole_library_under_valgrind(tmp_path: Path) -> None:
    library = native_library()
    if shutil.which("valgrind") is None or library is None:
        pytest.skip("no valgrind or no library here")
    source, program = tmp_path / "drive.c", tmp_path / "drive"
    source.write_text(DRIVE)
    subprocess.run(["cc", "-g", "-o", program, source, library, "-pthread"], check=True)

    command = ["valgrind", "-q", "--error-exitcode=9", "--child-silent-after-fork=no", str(program)]
    drive(tmp_path, command)


def test_whole_library_under_sanitizers(tmp_path: Path) -> None:
    """The sanitizer's own handlers stay away, since ours are what is looked at."""
    source, program = tmp_path / "drive.c", tmp_path / "drive"
    source.write_text(DRIVE)
    compile_with_sanitizers(program, source, *NATIVE.glob("*.c"))

    ours_alone = "use_sigaltstack=0:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigill=0"
    drive(tmp_path, [str(program)], ASAN_OPTIONS=f"{ours_alone}:handle_sigfpe=0:handle_sigtrap=0")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compiles_without_a_warning(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    for source in sorted(NATIVE.glob("*.c")):
        flags = ["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Wpedantic"]
        words = [*flags, "-Werror", "-c", "-o", str(tmp_path / "out.o"), str(source)]
        done = subprocess.run([compiler, *words], capture_output=True, text=True, timeout=180)
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
        timeout=180,
    )
    assert done.stdout == "left out None True\n", done.stderr
