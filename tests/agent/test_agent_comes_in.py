"""How the agent gets into a process, and that nothing of it shows there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from agent_runs import Ended, Runner, build, library_functions

WHAT_A_PROGRAM_SEES = """
import json, os, signal, sys, threading
environ = {k: v for k, v in os.environ.items()}
print(json.dumps({
    "path": sys.path,
    "argv": sys.argv,
    "flags": list(sys.flags),
    "sitecustomize": "sitecustomize" in sys.modules,
    "hook": sys.excepthook is sys.__excepthook__,
    "handlers": [str(signal.getsignal(n)) for n in range(1, 65) if n not in (32, 33)],
    "threads": threading.active_count(),
    "warnings": sys.warnoptions,
    "environ": environ,
    "modules": sorted(m for m in sys.modules if not m.startswith("rerail_")),
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd") if int(n) < 100),
}))
"""


def seen(ended: Ended) -> dict[str, object]:
    assert ended.status == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.parametrize("flags", [[], ["-s"], ["-I"], ["-E"], ["-S"], ["-IS"], ["-P"]], ids=str)
def test_program_sees_no_difference(run: Runner, flags: list[str]) -> None:
    if flags == ["-P"] and sys.version_info < (3, 11):
        pytest.skip("-P came with Python 3.11")
    arguments = [*flags, "-c", WHAT_A_PROGRAM_SEES]
    bare, ended = run(arguments, agent=False), run(arguments)
    before, after = seen(bare), seen(ended)

    added = set(after["environ"]) - set(before["environ"])  # type: ignore[call-overload]
    is_preloaded = any(letter in flag for flag in flags for letter in "IES")
    documented = {"RERAIL_AGENT", "RERAIL_T0", "PYTHONPATH"}
    assert added == (documented | {"LD_PRELOAD"} if is_preloaded else documented)
    extra = set(after.pop("modules")) - set(before.pop("modules"))  # type: ignore[call-overload]
    # ctypes and what it imports; nothing else comes in early.
    assert {name.partition(".")[0] for name in extra} <= {
        "_ctypes", "ctypes", "_struct", "struct", "atexit", "faulthandler", "importlib", "os",
        "stat", "posixpath", "genericpath", "_stat", "_collections_abc", "_weakrefset",
        "contextlib", "collections", "functools", "itertools", "keyword", "operator", "reprlib",
        "types", "warnings", "_collections", "_functools", "_operator", "typing", "re", "enum",
        "copyreg", "_sre", "sre_compile", "sre_constants", "sre_parse",
    }  # fmt: skip
    for each in (before, after):
        each.pop("environ")
    assert after == before
    assert len(ended.boxes) == 1
    assert ended.box.handler_installed and ended.box.said_goodbye


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-S"], ["-I", "-S"]], ids=str)
def test_crash_where_pythonpath_is_not_read(run: Runner, faults: str, flags: list[str]) -> None:
    code = f"import ctypes\ndef die(): ctypes.CDLL({faults!r}).fault(11)\ndie()"
    ended = run([*flags, "-c", code])

    assert ended.status == -11
    assert library_functions(ended.crash, faults)[0] == "write_through_null"
    assert "die" in [frame.function for frame in ended.crash.threads[0].python]


def test_native_threads_overflow_where_preloaded(run: Runner, faults: str, tmp_path: Path) -> None:
    """Only a preloaded library can give threads of C an alternate stack."""
    source = tmp_path / "overflow.c"
    source.write_text(
        "#include <pthread.h>\n"
        "static int (*volatile deeper)(int);\n"
        "int overflow(int n) { volatile char room[256]; room[n % 256] = 1; deeper = overflow;"
        " return deeper(n + 1) + room[0]; }\n"
        "static void *start(void *a) { (void)a; overflow(0); return 0; }\n"
        "void overflow_in_thread(void) { pthread_t t; pthread_create(&t, 0, start, 0);"
        " pthread_join(t, 0); }\n"
    )
    library = build(tmp_path / "liboverflow.so", source, "cc")
    code = f"import ctypes; ctypes.CDLL({library!r}).overflow_in_thread()"
    ended = run(["-c", code], preload=True)

    assert ended.status == -11
    assert library_functions(ended.crash, library)[0] == "overflow"
    assert not ended.crash.is_main_thread


def test_embedded_interpreter(run: Runner, tmp_path: Path) -> None:
    import sysconfig

    from rerail.platform.python_flags import needs_preload

    library = Path(sysconfig.get_config_var("LIBDIR")) / str(sysconfig.get_config_var("LDLIBRARY"))
    if ".so" not in library.name or not library.exists():
        pytest.skip("this Python has no shared library to embed")
    source = tmp_path / "embed.c"
    source.write_text(
        "void Py_Initialize(void); int PyRun_SimpleString(const char *); int Py_FinalizeEx(void);\n"
        "int main(int c, char **v) { (void)c; Py_Initialize();"
        " PyRun_SimpleString(v[1]); return Py_FinalizeEx(); }\n"
    )
    program = tmp_path / "embed"
    folder = str(library.parent)
    subprocess.run(
        ["cc", "-o", program, source, library, f"-Wl,-rpath,{folder}"], check=True, timeout=180
    )
    reason = needs_preload([str(program)], dict(os.environ))
    assert reason is not None and "libpython" in reason
    home = {"PYTHONHOME": sys.base_prefix}
    fine = run(["print(1 + 1)"], python=str(program), environ=home)
    dead = run(["import os; os.abort()"], python=str(program), environ=home)

    assert (fine.status, fine.stdout) == (0, "2\n")
    assert fine.box.said_goodbye
    assert dead.status == -6
    assert dead.crash.threads[0].python


@pytest.mark.parametrize("is_broken", [False, True], ids=["fine", "broken"])
def test_own_sitecustomize(run: Runner, tmp_path: Path, is_broken: bool) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    text = "import sys\nsys.from_site = __file__\n" + ("raise ValueError('x')\n" * is_broken)
    (folder / "sitecustomize.py").write_text(text)
    (folder / "usercustomize.py").write_text("import sys\nsys.from_user = __name__\n")
    code = (
        "import sys; s = sys.modules.get('sitecustomize');"
        "print(sys.from_site, s and s.__file__, s and s.__spec__.name, sys.path[1])"
    )
    environ = {"PYTHONPATH": str(folder)}
    bare, ended = (run(["-c", code], agent=agent, environ=environ) for agent in (False, True))

    assert (ended.status, ended.stdout, ended.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert str(folder / "sitecustomize.py") in ended.stdout
    assert ended.box.handler_installed


@pytest.mark.parametrize(
    ("code", "status", "has_goodbye"),
    [
        ("pass", 0, True),
        ("raise SystemExit(5)", 5, True),
        ("import os; os._exit(6)", 6, True),
        ("import os; os.kill(os.getpid(), 9)", -9, False),
        ("import os; os.kill(os.getpid(), 15)", -15, False),
        ("1 / 0", 1, True),
    ],
)
def test_goodbye(run: Runner, code: str, status: int, has_goodbye: bool) -> None:
    ended = run(["-c", code])

    assert ended.status == status
    assert ended.box.said_goodbye is has_goodbye
    expected = "ZeroDivisionError" if code == "1 / 0" else None
    assert ended.box.exception_type == expected


def test_exec_begins_a_new_record(run: Runner) -> None:
    inner = "import os, sys; print(sys.argv[1], flush=True); os.abort()"
    code = f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {inner!r}, 'inner'])"
    ended = run(["-c", code])

    assert (ended.status, ended.stdout) == (-6, "inner\n")
    assert len(ended.boxes) == 1
    assert ended.box.argv[-1] == "inner"
    assert ended.crash.pid == ended.box.pid


def test_every_forked_process_has_its_own_box(run: Runner) -> None:
    code = """
import os
for i in range(3):
    pid = os.fork()
    if pid == 0:
        if i == 1: os._exit(3)
        if i == 2: os.kill(os.getpid(), 9)
        raise SystemExit(4)
    os.waitpid(pid, 0)
"""
    ended = run(["-c", code])

    children = [box for box in ended.boxes if box.pid != ended.box.pid]
    assert [box.said_goodbye for box in sorted(children, key=lambda b: b.pid)] == [
        True,
        True,
        False,
    ]
    assert all(box.parent_pid == ended.box.pid for box in children)
    assert all(box.fork_parent_had_threads is False for box in children)


def test_child_of_a_threaded_parent_knows(run: Runner) -> None:
    code = """
import os, threading, warnings
warnings.simplefilter("ignore")
stop = threading.Event()
threading.Thread(target=stop.wait).start()
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0); stop.set()
"""
    ended = run(["-c", code])

    child = next(box for box in ended.boxes if box.pid != ended.box.pid)
    assert child.fork_parent_had_threads is True
    assert ended.box.fork_parent_had_threads is None


def test_subprocess_leaves_no_litter(run: Runner) -> None:
    """A fork that is about to exec something else gets no files."""
    code = """
import os, subprocess
for _ in range(5):
    subprocess.run(["true"]); subprocess.run(["true"], preexec_fn=None, close_fds=False)
    os.system("true"); os.popen("true").read(); os.posix_spawn("/bin/true", ["true"], os.environ)
"""
    ended = run(["-c", code])

    assert ended.status == 0, ended.stderr
    assert len(list(ended.folder.iterdir())) == 3


def test_multiprocessing_children_say_goodbye(run: Runner, tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text("""
import multiprocessing, sys
def fine(n): return n + 1
def fails(): raise KeyError("no such shard")
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(fine, range(4)))
        pool.close(); pool.join()
    process = context.Process(target=fails); process.start(); process.join()
    print(process.exitcode)
""")
    for method in ("fork", "spawn"):
        bare, ended = (run([str(script), method], agent=agent) for agent in (False, True))

        assert (ended.status, ended.stdout) == (bare.status, bare.stdout)
        assert ended.stderr == bare.stderr.replace(str(bare.folder), str(ended.folder))
        assert all(box.said_goodbye for box in ended.boxes)
        failed = [box for box in ended.boxes if box.exception_type]
        assert [box.exception_type for box in failed] == ["KeyError"]
        assert failed[0].exception_text == "'no such shard'"


def test_thread_exception_is_noted(run: Runner) -> None:
    code = """
import threading
def fails(): raise OSError(28, "No space left on device")
t = threading.Thread(target=fails, name="saver"); t.start(); t.join()
print(threading.excepthook is getattr(threading, "__excepthook__", threading.excepthook))
"""
    bare, ended = (run(["-c", code], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stdout, ended.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert ended.box.exception_type == "OSError"
    assert ended.box.exception_text == "in saver: [Errno 28] No space left on device"


def test_own_excepthook(run: Runner) -> None:
    code = """
import sys
sys.excepthook = lambda kind, value, trace: print("mine", kind.__name__, file=sys.stderr)
raise LookupError("gone")
"""
    bare, ended = (run(["-c", code], agent=agent) for agent in (False, True))

    assert (ended.status, ended.stderr) == (bare.status, bare.stderr) == (1, "mine LookupError\n")
    assert (ended.box.exception_type, ended.box.exception_text) == ("LookupError", "gone")


def test_folder_that_cannot_be_written(run: Runner, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    ended = run(["-c", "print('ran')"], folder=gone)

    assert (ended.status, ended.stdout, ended.stderr) == (0, "ran\n", "")


def test_folder_removed_while_running(run: Runner) -> None:
    code = """
import os, shutil, ctypes
shutil.rmtree(os.environ["RERAIL_AGENT"])
pid = os.fork()
if pid == 0: os._exit(5)
print(os.waitpid(pid, 0)[1] >> 8)
import sys; sys.stdout.flush()
os.abort()
"""
    ended = run(["-c", code])

    assert ended.status == -6
    assert ended.stdout.split()[0] == "5"


def test_without_the_c_library(run: Runner, tmp_path: Path) -> None:
    """Where rerail was installed without a compiler there is a box, and the record says so."""
    import rerail.agent

    copy = tmp_path / "copy" / "agent"
    shutil.copytree(Path(rerail.agent.__file__).parent / "stub", copy / "stub")
    folder = tmp_path / "bare-agent"
    folder.mkdir()
    environ = {
        "RERAIL_AGENT": str(folder),
        "RERAIL_T0": "0",
        "PYTHONPATH": str(copy / "stub"),
    }
    code = """
import os
pid = os.fork()
if pid == 0: raise SystemExit(0)
os.waitpid(pid, 0)
1 / 0
"""
    ended = run(["-c", code], agent=False, environ=environ, folder=folder)

    assert ended.status == 1
    assert ended.box.exception_type == "ZeroDivisionError"
    assert not ended.box.handler_installed
    assert len(ended.boxes) == 2 and all(box.said_goodbye for box in ended.boxes)
    assert any("native library" in note for note in ended.box.notes)
