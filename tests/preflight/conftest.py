"""Environments to be checked: small ones made by hand, and real ones made from wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preflight_environments import Environment, bare_environment


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    return bare_environment(tmp_path / "env")


@pytest.fixture(scope="session")
def wheels(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Environment]]:
    """Builds an environment from wheels; `link` takes packages from the tests' own environment."""
    made: dict[tuple[str, ...], Environment] = {}

    def build(*requirements: str, link: tuple[str, ...] = ()) -> Environment:
        key = (*requirements, "|", *link)
        if key not in made:
            found = bare_environment(tmp_path_factory.mktemp("wheels") / "env")
            own = Path(sysconfig.get_paths()["purelib"])
            for name in link:
                paths = [own / name, *own.glob(f"{name}-*.dist-info"), *own.glob(f"{name}.libs")]
                if not paths[0].exists():
                    pytest.skip(f"{name} is not installed for the tests")
                for path in paths:
                    (found.site / path.name).symlink_to(path)
            if requirements:
                _install(found, requirements)
            made[key] = found
        return made[key]

    yield build


def _install(environment: Environment, requirements: tuple[str, ...]) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", environment.python, "install", "--quiet"),
            *("--no-deps", "--only-binary=:all:", *requirements),
        ],
        capture_output=True,
        timeout=600,
    )
    if done.returncode != 0:
        pytest.skip(f"no wheels to be had: {done.stderr.decode(errors='replace')[-200:]}")
