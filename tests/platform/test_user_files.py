"""A path that the user named is written, and what is no regular file is never replaced."""

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from rerail.platform.user_files import (
    advice_on,
    append_to_user_file,
    create_user_file,
    write_user_file,
)


def test_regular_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_user_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_dangling", [True, False])
def test_link_is_kept_and_its_target_is_written(tmp_path: Path, is_dangling: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to("target")
    if not is_dangling:
        target.write_bytes(b"old")
    write_user_file(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"


def test_loop_and_folder_and_socket_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(tmp_path)  # the path of a socket has to be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
    for name in ("loop", "folder", "socket"):
        before = (tmp_path / name).lstat()
        with pytest.raises(OSError):
            write_user_file(tmp_path / name, b"new")
        assert os.path.samestat(before, (tmp_path / name).lstat())


def test_pipe_gets_the_bytes_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError):
        write_user_file(pipe, b"new")
    with pytest.raises(OSError):
        append_to_user_file(pipe, b"new")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_user_file(pipe, b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("through_link", [True, False])
def test_device_stays_a_device(tmp_path: Path, through_link: bool) -> None:
    full = tmp_path / "full"
    try:
        os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        os.close(os.open(full, os.O_WRONLY))
    except OSError:
        pytest.skip("only root can make a device, and the file system must allow it")
    link = tmp_path / "link"
    link.symlink_to(full)
    with pytest.raises(OSError):
        write_user_file(link if through_link else full, b"new")
    assert stat.S_ISCHR(full.stat().st_mode)


def test_foreign_file_is_refused_where_the_caller_asks(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"foreign")
    with pytest.raises(FileExistsError):
        write_user_file(path, b"new", may_replace=lambda head: head.startswith(b"own"))
    assert path.read_bytes() == b"foreign"
    path.write_bytes(b"")
    write_user_file(path, b"own", may_replace=lambda head: head.startswith(b"own"))
    assert path.read_bytes() == b"own"


def test_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write every file")
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        write_user_file(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_file_in_a_read_only_folder_is_written_in_place(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write every folder")
    path = tmp_path / "out"
    path.write_bytes(b"a longer old text")
    before = path.stat()
    tmp_path.chmod(0o555)
    try:
        write_user_file(path, b"new")
        with pytest.raises(PermissionError):
            write_user_file(tmp_path / "another", b"new")
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == b"new" and os.path.samestat(before, path.stat())


def test_deleted_file_behind_a_descriptor_is_written_in_place(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"")
    with path.open("r+b") as file:
        path.unlink()
        write_user_file(Path(f"/proc/self/fd/{file.fileno()}"), b"new")
        file.seek(0)
        assert file.read() == b"new"
    assert list(tmp_path.iterdir()) == []


def test_new_file_takes_the_place_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    create_user_file(tmp_path / "new", b"text")
    for name in ("link", "new"):
        with pytest.raises(FileExistsError):
            create_user_file(tmp_path / name, b"other")
    assert (tmp_path / "new").read_bytes() == b"text"


def test_advice_fits_the_failure(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    missing, foreign = tmp_path / "none" / "out", tmp_path / "foreign"
    foreign.write_bytes(b"foreign")
    for path, expected in (
        (tmp_path / "pipe", "Start the program that reads from it"),
        (tmp_path, "this is a folder"),
        (Path("/dev/full"), "this is a device"),
        (missing, "Make its folder first"),
        (foreign, "Name a new file or an empty one"),
    ):
        with pytest.raises(OSError) as failure:
            write_user_file(path, b"new", may_replace=lambda head: False)
        assert expected in advice_on(failure.value, path, "-o FILE")
    full = OSError(errno.ENOSPC, "No space left on device")
    assert "Free some space" in advice_on(full, foreign, "-o FILE")
