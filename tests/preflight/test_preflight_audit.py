"""The audit of small environments: what is planted is found, what is clean stays clean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from preflight_environments import GOMP, KMP, VERSION, Environment

from rerail.preflight import Finding, check, quick
from rerail.preflight.audit.auditing import audit


def look(environment: Environment, program: str, tmp_path: Path, **variables: str) -> list[Finding]:
    script = tmp_path / "train.py"
    script.write_text(program)
    environ = {"PATH": os.environ["PATH"], **variables}
    return audit([environment.python, str(script)], tmp_path, environ).findings


def bad(findings: list[Finding], level: str = "") -> set[str]:
    return {f.id for f in findings if f.level != "fine" and level in ("", f.level)}


def test_a_clean_environment_has_no_fatal_or_risky_line(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add_with_runtime("alpha", KMP % "LLVM OMP version", "libomp.so.5")
    environment.add("beta", requires=("alpha>=0.5",))
    assert bad(look(environment, "import alpha, beta\n", tmp_path)) == set()


def test_llvm_and_intel_openmp_in_one_process_abort(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add_with_runtime("alpha", KMP % "LLVM OMP version", "libomp-1a2b.so.5")
    environment.add_with_runtime("beta", KMP % "Intel(R) OMP Copyright", "libiomp5.so")
    found = look(environment, "import alpha, beta\n", tmp_path)
    assert bad(found, "fatal") == {"openmp-duplicate-runtime"}
    (finding,) = [f for f in found if f.level == "fatal"]
    assert "alpha" in finding.title and "beta" in finding.title
    # Only one of them is imported: the other lies ready.
    one = look(environment, "import alpha\n", tmp_path)
    assert bad(one, "fatal") == set() and "openmp-duplicate-runtime" in bad(one, "risky")


def test_the_hiding_variable_is_a_finding_of_its_own(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add_with_runtime("alpha", KMP % "LLVM OMP version", "libomp-1a2b.so.5")
    environment.add_with_runtime("beta", KMP % "Intel(R) OMP Copyright", "libiomp5.so")
    found = look(environment, "import alpha, beta\n", tmp_path, KMP_DUPLICATE_LIB_OK="TRUE")
    titles = [f.title for f in found if f.level == "risky"]
    assert any("KMP_DUPLICATE_LIB_OK" in title for title in titles)
    assert bad(found, "fatal") == set()


def test_two_gnu_runtimes_are_risky_and_worse_with_forked_workers(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add_with_runtime("alpha", GOMP, "libgomp-1.so.1")
    environment.add_with_runtime("beta", GOMP, "libgomp-2.so.1")
    assert bad(look(environment, "import alpha, beta\n", tmp_path)) == {"openmp-duplicate-runtime"}
    program = "import alpha, beta\nDataLoader(rows, num_workers=2)\n"
    assert bad(look(environment, program, tmp_path)) == {
        "openmp-duplicate-runtime",
        "fork-after-threads",
    }
    spawned = program.replace("=2", "=2, multiprocessing_context='spawn'")
    spawned += "if __name__ == '__main__': main()\n"
    assert "fork-after-threads" not in bad(look(environment, spawned, tmp_path))


def test_one_runtime_under_one_soname_counts_once(environment: Environment, tmp_path: Path) -> None:
    environment.add_with_runtime("alpha", GOMP, "libgomp-1.so.1")
    environment.add_with_runtime("beta", GOMP, "libgomp-1.so.1")
    assert bad(look(environment, "import alpha, beta\n", tmp_path)) == set()


def test_a_library_that_is_nowhere(environment: Environment, tmp_path: Path) -> None:
    module = environment.add("alpha")
    gone = environment.compile(tmp_path / "libtokens.so.2", "void t(void) {}\n")
    environment.compile(
        module / "_fast.abi3.so", "void f(void) {}\n", "-Wl,--no-as-needed", str(gone)
    )
    environment.record("alpha")
    gone.unlink()
    found = look(environment, "import alpha\n", tmp_path)
    assert bad(found, "fatal") == {"missing-shared-library"}
    assert "libtokens.so.2" in next(f.title for f in found if f.level == "fatal")


def test_an_extension_for_numpy_1_beside_numpy_2(environment: Environment, tmp_path: Path) -> None:
    environment.add("numpy", "2.1.0")
    module = environment.add("alpha")
    old = 'const char *place = "numpy.core._multiarray_umath";\n'
    environment.compile(module / "_old.abi3.so", old)
    environment.record("alpha")
    program = "import alpha, numpy\n"
    assert bad(look(environment, program, tmp_path), "fatal") == {"numpy-abi-mismatch"}
    both = old + 'const char *new_place = "numpy._core._multiarray_umath";\n'
    environment.compile(module / "_old.abi3.so", both)
    assert bad(look(environment, program, tmp_path)) == set()


def test_an_extension_for_another_torch(environment: Environment, tmp_path: Path) -> None:
    torch = environment.add("torch", "2.13.0")
    (torch / "lib").mkdir()
    c10 = environment.compile(
        torch / "lib" / "libc10.so", "void _ZN3c105newOneEv(void) {}\n", "-Wl,-soname,libc10.so"
    )
    environment.record("torch", "2.13.0")
    module = environment.add("flash")
    wants = "void _ZN3c105%sEv(void); void f(void) { _ZN3c105%sEv(); }\n"
    link = ("-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN/../torch/lib", str(c10))
    for name, expected in (("newOne", set()), ("oldOne", {"torch-abi-mismatch"})):
        environment.compile(module / "_ops.abi3.so", wants % (name, name), *link)
        environment.record("flash")
        found = look(environment, "import flash, torch\n", tmp_path)
        assert bad(found, "fatal") == expected, name


def test_torchvision_for_another_torch_from_versions_alone() -> None:
    around = {"packages": {"torch": "2.13.0+cpu", "torchvision": "0.27.1"}}
    assert {f.id for f in quick(around)} == {"torch-abi-mismatch"}
    around["packages"]["torchvision"] = "0.28.0"
    assert quick(around) == []


def test_unmet_requirements_and_wheels_for_another_python(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add("alpha", requires=("beta>=2", "gamma; extra == 'more'", "delta"))
    environment.add("beta", "1.5")
    found = look(environment, "import alpha\n", tmp_path)
    (finding,) = [f for f in found if f.level == "risky"]
    assert "beta" in finding.why and "delta" in finding.why and "gamma" not in finding.why
    module = environment.add("omega", tag="cp36-cp36m-manylinux1_x86_64")
    environment.compile(module / "_o.cpython-36m-x86_64-linux-gnu.so", "void o(void) {}\n")
    environment.record("omega")
    found = look(environment, "import omega\n", tmp_path)
    assert any("Python 3.6" in f.title and f.level == "fatal" for f in found)


def test_fork_hazards_need_a_fork(environment: Environment, tmp_path: Path) -> None:
    environment.add("tokenizers")
    environment.add("torch", "2.13.0")
    forks = "import tokenizers, torch\nDataLoader(rows, num_workers=4)\n"
    assert bad(look(environment, forks, tmp_path)) >= {"fork-after-threads"}
    assert "fork-after-threads" not in bad(
        look(environment, "import tokenizers, torch\n", tmp_path)
    )
    cured = look(environment, forks, tmp_path, TOKENIZERS_PARALLELISM="false")
    assert "fork-after-threads" not in bad(cured)


def test_spawn_without_a_main_guard_is_fatal(environment: Environment, tmp_path: Path) -> None:
    program = (
        "import multiprocessing as m\nm.set_start_method('spawn')\nm.Process(target=f).start()\n"
    )
    assert bad(look(environment, program, tmp_path), "fatal") == {"spawn-main-guard"}
    guarded = program + "if __name__ == '__main__':\n    pass\n"
    assert bad(look(environment, guarded, tmp_path)) == set()


def test_own_modules_are_followed_and_missing_ones_named(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add("alpha")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").write_text("from .parts import Net\n")
    parts = (
        "import alpha\nimport einstein\ntry:\n    import apex\nexcept ImportError:\n    apex = 0\n"
    )
    (tmp_path / "model" / "parts.py").write_text(parts)
    found = look(environment, "from model import Net\n", tmp_path)
    (finding,) = [f for f in found if f.level == "risky"]
    assert "einstein" in finding.title and "parts.py:2" in finding.where
    assert "apex" not in finding.title


@pytest.mark.parametrize("breakage", ["no metadata", "torn library", "syntax error", "no python"])
def test_a_broken_environment_is_an_answer_not_a_defect(
    environment: Environment, tmp_path: Path, breakage: str
) -> None:
    module = environment.add("alpha")
    program = "import alpha\n"
    if breakage == "no metadata":
        (environment.site / "alpha-1.0.dist-info" / "METADATA").unlink()
    elif breakage == "torn library":
        (module / "_x.abi3.so").write_bytes(b"\x7fELF\x02\x01" + b"\0" * 30)
        environment.record("alpha")
    elif breakage == "syntax error":
        program = "import alpha\nthis is not python\n"
    else:
        found = audit([str(tmp_path / "nowhere")], tmp_path, {"PATH": "/nonexistent"}).findings
        assert bad(found)
        return
    findings = look(environment, program, tmp_path)
    assert findings
    if breakage in ("no metadata", "torn library"):
        assert bad(findings, "risky")


def test_what_cannot_be_read_is_named_with_its_package(
    environment: Environment, tmp_path: Path
) -> None:
    module = environment.add("alpha")
    (module / "_x.abi3.so").write_bytes(b"\x7fELF" + b"\0" * 30)
    environment.record("alpha")
    environment.add("beta")
    (environment.site / "beta-1.0.dist-info" / "METADATA").write_bytes(b"\0\xff nonsense")
    found = look(environment, "import alpha, beta\n", tmp_path)
    (library,) = [f for f in found if "_x.abi3.so" in f.title]
    assert library.do[0].endswith("--force-reinstall --no-deps alpha")
    (metadata,) = [f for f in found if "metadata of beta" in f.title]
    assert "METADATA" in metadata.why


def test_an_environment_that_outlived_its_python_is_fatal_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(tmp_path / "removed" / "python3.9")
    found = check(["bin/python", "train.py"], tmp_path, {"PATH": "/nonexistent"})
    (finding,) = [f for f in found.findings if f.level == "fatal"]
    assert finding.title.startswith("bin/python leads to") and found.plan is None


def test_what_is_imported_is_not_run(environment: Environment, tmp_path: Path) -> None:
    module = environment.add("alpha")
    trace = tmp_path / "was-run"
    (module / "__init__.py").write_text(f"open({str(trace)!r}, 'w')\n")
    look(environment, "import alpha\n", tmp_path)
    assert not trace.exists()
    assert VERSION in environment.site.as_posix()
