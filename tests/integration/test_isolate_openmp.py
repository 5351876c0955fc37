"""Two OpenMP runtimes in one process: explained, and isolated by loading one for both."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
#include <omp.h>
int NAME(void) { int n = 0;
#pragma omp parallel
{
#pragma omp atomic
n++;
}
return n; }
"""
PROGRAM = """
import ctypes, sys, time
for name in ("first", "second"):
    library = ctypes.CDLL(f"{sys.argv[1]}/{name}/lib{name}.so")
    print(name, getattr(library, name)(), flush=True)
    time.sleep(0.2)
time.sleep(1.0)
"""


def build(folder: Path, name: str, runtime: Path) -> None:
    """A library linked to a copy of the runtime of its own, as wheels bring them."""
    own = folder / name
    own.mkdir()
    # Another name of the same length inside too: under one name the loader would share one copy.
    soname = {"first": b"libiomp5.so", "second": b"libomp-5.so"}[name]
    copy = own / soname.decode()
    copy.write_bytes(runtime.read_bytes().replace(b"libiomp5.so\0", soname + b"\0"))
    (own / f"{name}.c").write_text(SOURCE.replace("NAME", name))
    # gcc's own calls (GOMP_*) are answered by Intel's runtime too.
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-fopenmp", "-c", "-o", own / f"{name}.o", own / f"{name}.c"],
        check=True,
    )
    linking = ["gcc", "-shared", "-o", own / f"lib{name}.so", own / f"{name}.o", copy]
    subprocess.run([*linking, "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"], check=True)


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_one_runtime_for_both_removes_the_abort(tmp_path: Path) -> None:
    runtime = Path(sys.prefix) / "lib" / "libiomp5.so"
    if not runtime.exists():
        pytest.skip("needs intel-openmp")
    for name in ("first", "second"):
        build(tmp_path, name, runtime)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(tmp_path)]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if "Error #15" not in plain.stderr:
        pytest.skip("the linker gave both libraries one runtime here")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rerail", "isolate", "--yes", "--json", "--max-trials", "30"),
            *("--try", "one-openmp-runtime", "--try", "UNRELATED=1", "--", *command),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=tmp_path,
    )
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["failure"]["cause"] == "openmp-duplicate-runtime", done.stderr
    assert document["status"] == "confirmed", done.stderr
    assert document["changes"] == ["one-openmp-runtime"]
