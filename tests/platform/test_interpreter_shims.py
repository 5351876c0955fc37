"""A pyenv version that cannot be looked up is no reason to fail: the shim itself is the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.platform.interpreter import find_interpreter


@pytest.mark.parametrize("version", ["3.11\x00", "a" * 5000, "a**", "[", "../.."])
def test_odd_pyenv_versions_lead_to_the_shim(tmp_path: Path, version: str) -> None:
    shim = tmp_path / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\n")
    shim.chmod(0o755)
    (tmp_path / "versions").mkdir()
    environ = {"PATH": str(shim.parent), "PYENV_VERSION": version}
    found = find_interpreter(["python", "train.py"], tmp_path, environ)
    assert found is not None
    assert found.path == str(shim)
