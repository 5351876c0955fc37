"""scripts/release, tried in a clone: version, changelog, tag, checksums, bill of materials."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILDER = ROOT / ".venv-wheels" / "bin" / "python"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that a release touches, in a repository of their own."""
    folder = tmp_path / "rerail"
    for name in ("scripts/release", "src/rerail/__init__.py", "pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- Better.\n")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "All"]):
        git(folder, *words)
    return folder


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A Tester", "-c", "user.email=tester@example.org"]
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def release(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    if not BUILDER.exists():
        pytest.skip("no tools for wheels here: make wheels sets them up")
    git(clone, "config", "user.name", "A Tester")
    git(clone, "config", "user.email", "tester@example.org")
    command = [str(BUILDER), str(clone / "scripts" / "release"), *words, "--without-wheels"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_a_release_is_committed_tagged_and_described(clone: Path) -> None:
    done = release(clone, "1.2.3")

    assert done.returncode == 0, done.stderr
    assert '__version__ = "1.2.3"' in git(clone, "show", "v1.2.3:src/rerail/__init__.py")
    changelog = git(clone, "show", "v1.2.3:CHANGELOG.md")
    assert "## Unreleased\n\n## 1.2.3 (20" in changelog and "- Better." in changelog
    document = json.loads((clone / "dist" / "rerail-1.2.3.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["version"] == "1.2.3"
    assert {"click", "psutil", "libunwind"} <= {each["name"] for each in document["components"]}
    assert "rerail-1.2.3.cdx.json" in (clone / "dist" / "SHA256SUMS").read_text()
    assert "git push" in done.stdout


def test_what_is_not_ready_is_refused(clone: Path) -> None:
    assert "is no version" in release(clone, "next").stderr
    (clone / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n")
    assert "not committed" in release(clone, "1.2.3").stderr
    git(clone, "commit", "--quiet", "--all", "--message", "Nothing")
    assert "says nothing under Unreleased" in release(clone, "1.2.3").stderr
