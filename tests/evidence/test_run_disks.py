"""Which file system was full."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from run_builders import info, recorded

from rerail.evidence.run import disks
from rerail.evidence.run.disks import full_mount

HERE = recorded(info=info(host=socket.gethostname()))


def test_a_path_that_was_named_tells_its_mount(tmp_path: Path) -> None:
    said = f"OSError: [Errno 28] No space left on device: '{tmp_path}/a/b.pt'"
    mount = full_mount(HERE, said)
    assert mount is not None and os.path.ismount(mount)
    assert str(tmp_path).startswith(mount)


def test_nothing_is_claimed_of_another_machine_or_another_error() -> None:
    assert full_mount(recorded(), "OSError: [Errno 28] No space left on device: '/a'") is None
    assert full_mount(HERE, "OSError: [Errno 5] Input/output error: '/a'") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_the_one_full_disk_is_found_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)])
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    # Other tests fill small disks at the same time.
    mounts = [place for place in disks.writable_mounts() if place in (str(small), "/dev")]
    monkeypatch.setattr(disks, "writable_mounts", lambda: mounts)
    try:
        assert full_mount(HERE, "OSError: [Errno 28] No space left on device") is None
        with pytest.raises(OSError, match="No space"):
            (small / "ckpt").write_bytes(b"x" * (1 << 20))
        assert full_mount(HERE, "OSError: [Errno 28] No space left on device") == str(small)
    finally:
        subprocess.run(["umount", str(small)], check=True)
