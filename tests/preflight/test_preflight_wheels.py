"""The audit of environments made from real wheels: every planted fault found, nothing imported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight_environments import Environment

from rerail.platform import mach_o
from rerail.preflight import Finding
from rerail.preflight.audit.auditing import audit
from rerail.preflight.audit.known import load

Build = Callable[..., Environment]
pytestmark = pytest.mark.slow
MOST_SECONDS = 3.0


def look(environment: Environment, program: str, tmp_path: Path, **variables: str) -> list[Finding]:
    """With a program, or of everything that is installed."""
    environ = {"PATH": os.environ["PATH"], **variables}
    if not program:
        environ["VIRTUAL_ENV"] = str(environment.prefix)
        return audit([], tmp_path, environ).findings
    script = tmp_path / "train.py"
    script.write_text(program)
    return audit([environment.python, str(script)], tmp_path, environ).findings


def bad(findings: list[Finding], level: str = "") -> set[str]:
    return {f.id for f in findings if f.level != "fine" and level in ("", f.level)}


TRAINS = "import torch\nfrom torch.utils.data import DataLoader\nDataLoader(x, num_workers=2)\n"


@pytest.mark.torch
def test_torch_and_faiss_bring_two_openmp_runtimes(wheels: Build, tmp_path: Path) -> None:
    environment = wheels("faiss-cpu", "numpy", link=("torch", "numpy")[:1])
    for program in ("", TRAINS + "import faiss\n"):
        found = look(environment, program, tmp_path)
        assert {"openmp-duplicate-runtime", "fork-after-threads"} <= bad(found), program


@pytest.mark.torch
def test_scikit_learn_beside_torch_brings_a_second_one(wheels: Build, tmp_path: Path) -> None:
    environment = wheels("scikit-learn", "numpy", "scipy", link=("torch",))
    assert "openmp-duplicate-runtime" in bad(
        look(environment, TRAINS + "import sklearn\n", tmp_path)
    )
    # Not imported, not loaded.
    assert "openmp-duplicate-runtime" not in bad(look(environment, TRAINS, tmp_path))


def test_intel_openmp_twice(wheels: Build, tmp_path: Path) -> None:
    environment = wheels("intel-openmp")
    second = tmp_path / "vendor" / "libiomp5.so"
    second.parent.mkdir()
    first = next((environment.prefix / "lib").glob("libiomp5.so"))
    second.write_bytes(first.read_bytes())
    program = f"import ctypes\nctypes.CDLL({str(first)!r})\nctypes.CDLL({str(second)!r})\n"
    found = look(environment, program, tmp_path)
    assert bad(found, "fatal") == {"openmp-duplicate-runtime"}
    once = look(environment, f"import ctypes\nctypes.CDLL({str(first)!r})\n", tmp_path)
    assert bad(once) == set()


def test_an_extension_for_numpy_1_in_an_environment_with_numpy_2(
    wheels: Build, tmp_path: Path
) -> None:
    environment = wheels("numpy==2.2.6", "bottleneck==1.3.8")
    for program in ("", "import bottleneck\n"):
        found = look(environment, program, tmp_path)
        assert "numpy-abi-mismatch" in bad(found, "fatal")
        assert any("bottleneck" in f.title.lower() for f in found if f.level == "fatal")


def test_an_extension_for_numpy_2_is_fine(wheels: Build, tmp_path: Path) -> None:
    environment = wheels("numpy==2.2.6", "bottleneck==1.4.2")
    for program in ("", "import bottleneck\n"):
        assert bad(look(environment, program, tmp_path)) == set()


@pytest.mark.torch
def test_opencv_and_tokenizers_in_forked_workers(wheels: Build, tmp_path: Path) -> None:
    environment = wheels(
        "tokenizers", "opencv-python-headless", "numpy", "huggingface-hub", link=("torch",)
    )
    program = TRAINS + "import cv2, tokenizers\n"
    found = [f for f in look(environment, program, tmp_path) if f.id == "fork-after-threads"]
    assert {"tokenizers", "opencv-python-headless"} <= {f.title.split()[0] for f in found}
    assert any("cv2.setNumThreads(0)" in " ".join(f.do) for f in found)


@pytest.mark.torch
def test_torchvision_of_another_torch(wheels: Build, tmp_path: Path) -> None:
    environment = wheels("torchvision==0.24.1", "numpy", "pillow", link=("torch",))
    for program in ("", "import torch, torchvision\n"):
        found = look(environment, program, tmp_path)
        assert "torch-abi-mismatch" in bad(found, "fatal")


@pytest.mark.torch
def test_a_clean_environment_with_torch_is_clean_and_quick(wheels: Build, tmp_path: Path) -> None:
    names = ("filelock", "fsspec", "jinja2", "markupsafe", "mpmath<1.4", "networkx", "sympy")
    environment = wheels(
        "numpy", "typing-extensions", "setuptools", *names, "tqdm", link=("torch",)
    )
    for program in ("", TRAINS + "import numpy, tqdm\n"):
        begun = time.process_time()
        found = look(environment, program, tmp_path)
        # CPU time: how long it takes on an idle machine.
        assert time.process_time() - begun < MOST_SECONDS
        assert bad(found) == set(), [(f.title, f.why) for f in found if f.level != "fine"]


def test_wheels_for_macos_are_read_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path),
            *("--platform", "macosx_14_0_arm64", "--python-version", "3.11"),
            *("--only-binary=:all:", "faiss-cpu"),
        ],
        capture_output=True,
        timeout=300,
    )
    if done.returncode != 0:
        pytest.skip("no wheel for macOS to be had")
    import zipfile

    wheel = next(tmp_path.glob("*.whl"))
    zipfile.ZipFile(wheel).extractall(tmp_path / "out")
    found = [str(p) for p in (tmp_path / "out").rglob("*") if p.suffix in (".so", ".dylib")]
    links = {path: mach_o.read_links(path) for path in found if mach_o.is_mach_o(path)}
    assert links
    needed = {name for each in links.values() for name in each.needed}
    assert any("libomp" in name for name in needed)


def test_every_entry_of_the_data_files_has_its_source() -> None:
    for name in ("compatibility", "instructions", "fork_hazards", "variables"):
        for entries in load(name).values():
            for entry in entries:
                assert str(entry["source"]).startswith("https://"), entry
