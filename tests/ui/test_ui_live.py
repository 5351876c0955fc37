"""What is pushed of a run that is under way, to everybody who watches it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import RUNS
from ui_server import UiServer, record

from rerail.store import Store
from rerail.ui.library import Library
from rerail.ui.live import Look

HANG_SECONDS = 180
TALKS = """
import sys
print("begun", flush=True)
for line in open(sys.argv[1]):  # a pipe: each line comes when the test says so
    print("heard", line.strip(), flush=True)
raise SystemExit(3)
"""


@asynccontextmanager
async def listening(server: UiServer, query: str) -> AsyncIterator[Any]:
    from websockets.asyncio.client import connect

    async with connect(
        f"ws://127.0.0.1:{server.port}/live{query}",
        additional_headers={"Authorization": f"Bearer {server.token}"},
    ) as socket:
        yield socket


async def until(socket: Any, is_so: Any) -> dict[str, Any]:
    """The first message that is so."""

    async def wait() -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if is_so(message):
                return message

    return await asyncio.wait_for(wait(), HANG_SECONDS)


def has_line(text: str) -> Any:
    return lambda message: text in [line["text"] for line in message.get("lines", [])]


@pytest.mark.thorough
def test_everybody_hears_of_a_run_as_it_goes_on(tmp_path: Path) -> None:
    import os

    home, pipe = tmp_path / "store", tmp_path / "pipe"
    home.mkdir()
    os.mkfifo(pipe)
    server = UiServer(home)
    running = record(home, sys.executable, "-c", TALKS, str(pipe), label="talks")
    say = pipe.open("w", buffering=1)

    async def watch() -> None:
        async with listening(server, "") as listed:
            news = await until(listed, lambda m: m["rows"])
            run_id = news["rows"][0]["id"]
            async with listening(server, f"?run={run_id}") as one:
                await until(one, lambda m: m["state"] == "running")
                async with listening(server, f"?run={run_id}") as other:
                    await until(other, lambda m: m["state"] == "running")
                    say.write("you\n")
                    for socket in (one, other):
                        await until(socket, has_line("heard you"))
                    say.close()
                    for socket in (one, other):
                        over = await until(socket, lambda m: m["state"] == "ended")
                        assert over["is_bad"] and "exit code 3" in over["summary"]
            await until(listed, lambda m: not m["rows"])

    try:
        asyncio.run(watch())
    finally:
        say.close()
        running.wait(180)
        server.close()


def test_a_run_that_is_over_is_told_once(server: UiServer) -> None:
    async def watch() -> None:
        async with listening(server, f"?run={RUNS['segfault']}") as socket:
            message = await until(socket, lambda m: True)
            assert message["state"] == "ended" and message["is_bad"]
            with pytest.raises(Exception, match="1000"):
                await asyncio.wait_for(socket.recv(), HANG_SECONDS)

    asyncio.run(watch())


def test_an_unknown_run_is_said_to_be_unknown(server: UiServer) -> None:
    async def watch() -> None:
        for name in ("nothing", "../../etc", "last"):
            async with listening(server, f"?run={name}") as socket:
                assert "no run" in (await until(socket, lambda m: True))["error"]

    asyncio.run(watch())


def test_nothing_is_said_while_nothing_changes(tmp_path: Path) -> None:
    writer = Store(tmp_path).create_run(["python", "train.py"], "/data", {}, False)
    writer.output(b"step 1\n", "stdout", 0.1)
    library = Library(tmp_path)
    look = Look(library, library.folder(writer.path.name))
    first = look.take()
    assert first is not None and [line["text"] for line in first["lines"]] == ["step 1"]
    assert look.take() is None
    writer.output(b"step 2\nhalf", "stdout", 0.2)
    news = look.take()
    assert news is not None
    assert [(line["number"], line["text"]) for line in news["lines"]] == [
        (2, "step 2"),
        (3, "half"),
    ]
    writer.output(b" and half\n", "stdout", 0.3)
    news = look.take()
    assert news is not None
    assert [(line["number"], line["text"]) for line in news["lines"]] == [(3, "half and half")]
