"""The screens of `rerail watch`, driven by keys over real runs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from watched_runs import PATIENCE_SECONDS, WatchedRun

from rerail.store import RunFolder
from rerail.watch.app import WatchApp
from rerail.watch.list_screen import ListScreen
from rerail.watch.run_screen import RunScreen
from rerail.watch.screens import LinesScreen, Question

Start = Callable[..., WatchedRun]
Steps = Callable[["Watcher"], Awaitable[None]]


class Watcher:
    """The application under a test's fingers."""

    def __init__(self, app: WatchApp, pilot: Any) -> None:
        self.app = app
        self.pilot = pilot

    def text(self) -> str:
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in lines)

    def fits(self, width: int, height: int) -> bool:
        rows = self.text().splitlines()
        return len(rows) <= height and all(cell_len(row) <= width for row in rows)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < end, f"it did not come; on the screen:\n{self.text()}"
            await self.pilot.pause(0.05)

    async def until_shown(self, *parts: str) -> None:
        await self.until(lambda: all(part in self.text() for part in parts))


def watch(
    steps: Steps,
    folders: list[RunFolder],
    home: Path | None = None,
    size: tuple[int, int] = (80, 24),
) -> WatchApp:
    app = WatchApp(folders, home)

    async def drive() -> None:
        async with app.run_test(size=size) as pilot:
            await steps(Watcher(app, pilot))

    asyncio.run(drive())
    return app


def test_a_live_run_is_shown_and_q_leaves(start_run: Start) -> None:
    run = start_run("step 3/10 loss 0.5", label="my-label")

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("my-label", "running for", "step 3/10 loss 0.5", "q quit")
        run.tell("step 4/10 loss 0.4")
        await watcher.until_shown("step 4/10 loss 0.4", "4/10")
        await watcher.press("q")

    assert watch(steps, [run.folder]).return_value == 0


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (50, 12)])
def test_it_fits_any_window_and_follows_a_new_size(start_run: Start, size: tuple[int, int]) -> None:
    run = start_run("x" * 500)

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("running for")
        await watcher.pilot.resize_terminal(*size)
        await watcher.until(lambda: watcher.fits(*size))
        await watcher.until_shown("running for", "q quit")
        await watcher.pilot.resize_terminal(100, 30)
        await watcher.until_shown("running for", "q quit")

    watch(steps, [run.folder])


def test_hostile_output_is_only_text(start_run: Start) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[red]not red[/red][@click=app.quit]press[/] [/] [bold"
    run = start_run(hostile, label="[blink]label[/blink]")

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("[blink]label[/blink]", "[red]not red[/red]", "[/] [bold")
        for key in ("o", "e", "s"):
            await watcher.press(key)
            await watcher.until(lambda: isinstance(watcher.app.screen, LinesScreen))
            await watcher.until(lambda: watcher.text().splitlines()[1].strip() != "…")
            assert "\x1b" not in watcher.text()
            await watcher.press("q")
        await watcher.until_shown("[red]not red[/red]")

    watch(steps, [run.folder])


def test_a_death_is_told_with_what_to_type_next(start_run: Start) -> None:
    run = start_run()

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("running for")
        run.tell("die")
        await watcher.until_shown("it was told to die", "exit code 1", "Why ", "Next ")
        await watcher.press("k")
        await watcher.until_shown("there is nothing to stop")
        await watcher.press("e")
        await watcher.until_shown("RuntimeError")

    watch(steps, [run.folder])


def test_stopping_asks_first_and_a_no_sends_nothing(start_run: Start) -> None:
    run = start_run()

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("running for")
        for answer in ("n", "escape", "enter", "q"):
            await watcher.press("k")
            await watcher.until(lambda: isinstance(watcher.app.screen, Question))
            await watcher.press(answer)
            await watcher.until(lambda: isinstance(watcher.app.screen, RunScreen))
        assert [e for e in run.folder.events() if e.kind == "signal-forwarded"] == []
        await watcher.press("k")
        await watcher.until(lambda: isinstance(watcher.app.screen, Question))
        await watcher.press("y")
        await watcher.until(lambda: run.folder.info().state == "ended")

    watch(steps, [run.folder])
    (sent,) = [e for e in run.folder.events() if e.kind == "signal-forwarded"]
    assert sent.data["signal"] == "SIGINT"


def test_watching_writes_nothing_into_the_run(start_run: Start) -> None:
    run = start_run()
    run.tell("die")
    run.close()
    (run.folder.path / "diagnosis.json").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in run.folder.path.rglob("*")}

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("exit code 1", "Why ")
        for key in ("e", "q", "o", "q", "s", "q"):
            await watcher.press(key)
            await watcher.pilot.pause()
        await watcher.until_shown("exit code 1")

    watch(steps, [run.folder])
    after = {path.name: path.stat().st_mtime_ns for path in run.folder.path.rglob("*")}
    assert after == before


def test_the_list_opens_what_is_chosen_and_finds_by_text(start_run: Start, tmp_path: Path) -> None:
    dead = start_run("first", label="was-dead")
    dead.tell("die")
    dead.close()
    live = start_run("second", label="still-live")

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("was-dead", "still-live", "2 runs", "1 live")
        lines = watcher.text().splitlines()
        at = [next(i for i, x in enumerate(lines) if n in x) for n in ("still-live", "was-dead")]
        assert at == sorted(at)  # what lives comes first
        await watcher.press("slash", *"was-dead", "enter")
        await watcher.until(lambda: "still-live" not in watcher.text())
        await watcher.press("enter")
        await watcher.until_shown("it was told to die", "Next ")
        await watcher.press("tab")
        await watcher.until_shown("still-live", "running for")
        await watcher.press("q")
        await watcher.until(lambda: isinstance(watcher.app.screen, ListScreen))
        await watcher.press("question_mark")
        await watcher.until_shown("asks first")
        await watcher.press("q", "q")

    app = watch(steps, [], tmp_path / "store")
    assert app.return_value == 0
    assert live.folder.is_live()


def test_tab_goes_through_the_runs_that_were_named(start_run: Start) -> None:
    runs = [start_run("a", label="run-a"), start_run("b", label="run-b")]

    async def steps(watcher: Watcher) -> None:
        for name in ("run-a", "run-b", "run-a"):
            await watcher.until_shown(name, "running for")
            await watcher.press("tab")

    watch(steps, [run.folder for run in runs])


def test_tab_goes_to_what_lives_where_one_was_named(start_run: Start) -> None:
    runs = [start_run("a", label="run-a"), start_run("b", label="run-b")]

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("run-a", "running for")
        await watcher.press("tab")
        await watcher.until_shown("run-b", "running for")

    watch(steps, [runs[0].folder])


def test_the_filter_keeps_only_lines_with_its_text(start_run: Start) -> None:
    run = start_run("an apple")
    run.tell("a pear")

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("an apple", "a pear")
        await watcher.press("slash", *"PEAR", "enter")
        await watcher.until(lambda: "an apple" not in watcher.text() and "a pear" in watcher.text())
        await watcher.press("slash", "escape")
        await watcher.until_shown("an apple", "a pear")

    watch(steps, [run.folder])


def test_a_package_is_written_where_the_user_is(
    start_run: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run()
    monkeypatch.chdir(tmp_path)

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("running for")
        await watcher.press("p")
        await watcher.until_shown("wrote rerail-")

    watch(steps, [run.folder])
    assert (tmp_path / f"rerail-{run.folder.id}.zip").stat().st_size > 0


def test_a_run_that_is_removed_under_it_is_said(start_run: Start) -> None:
    import shutil

    run = start_run()
    run.close()

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("ended well")
        shutil.rmtree(run.folder.path)
        await watcher.press("r")
        await watcher.until_shown("cannot read the run")

    watch(steps, [run.folder])


def test_a_signal_leaves_with_its_status(start_run: Start) -> None:
    import os

    run = start_run()

    async def steps(watcher: Watcher) -> None:
        await watcher.until_shown("running for")
        os.kill(os.getpid(), signal.SIGTERM)
        await watcher.until(lambda: watcher.app.return_value is not None)

    assert watch(steps, [run.folder]).return_value == 128 + signal.SIGTERM
