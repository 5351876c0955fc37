"""The application: which address gives which page, and its JSON twin.

In: requests that `access.Guard` has let through. Out: HTML, JSON, and pushed messages. Promises: a
page is made in a thread and given up after ANSWER_SECONDS; what goes wrong is a plain page with a
sentence, never a traceback; every number in a question has bounds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from rerail.errors import RerailError, UnknownRun, UnreadableInput, UsageError
from rerail.platform.os_text import shown_value
from rerail.store import encode
from rerail.ui import answers, pages, series
from rerail.ui.access import Guard
from rerail.ui.library import Library
from rerail.ui.live import Watches
from rerail.ui.openapi import description
from rerail.ui.rows import STATES, Asked
from rerail.ui.settings import ANSWER_SECONDS, MOST_LINES, MOST_POINTS, MOST_SOCKETS, UiSettings

T = TypeVar("T")
log = logging.getLogger(__name__)


class BadQuestion(UsageError):
    """A parameter that is not what it should be."""


class Pages:
    """The handlers, over one store."""

    def __init__(self, settings: UiSettings) -> None:
        self.library = Library(settings.home)
        self.watches = Watches(self.library)
        self.sockets = 0

    async def front(self, request: Request) -> Response:
        # With the host: a browser would keep a password of the address in a relative one.
        return RedirectResponse(f"http://{request.headers['host']}/runs", 307)

    async def runs(self, request: Request) -> Response:
        asked = Asked(
            words=_text(request, "q"),
            state=_one_of(request, "state", STATES),
            cause=_text(request, "cause"),
            command=_text(request, "command"),
            label=_text(request, "label"),
            page=_number(request, "page", 1, 1, 1_000_000),
        )
        found = await _made(answers.runs, self.library, asked)
        if _is_json(request):
            return _json(found)
        return _html(pages.render("runs.html", asked=asked, listed=found, states=STATES))

    async def run(self, request: Request) -> Response:
        run_id = request.path_params["run"]
        found = await _made(answers.run, self.library, run_id)
        if _is_json(request):
            return _json(found)
        top = await _made(lambda: self.library.top(self.library.folder(run_id)))
        text = pages.render_document("run.html", top, found=found)
        # The page asks for its charts as soon as it is there: a day of vitals is read meanwhile.
        return HTMLResponse(_bytes(text), background=BackgroundTask(self._read_ahead, run_id))

    def _read_ahead(self, run_id: str) -> None:
        with suppress(RerailError):
            self.library.table(self.library.folder(run_id)).refresh()

    async def details(self, request: Request) -> Response:
        run_id = request.path_params["run"]
        if _is_json(request):
            return _json(await _made(answers.details, self.library, run_id))
        return _html(await _made(self._details, run_id))

    def _details(self, run_id: str) -> str:
        folder = self.library.folder(run_id)
        return pages.render_details(self.library.document(folder), is_live=folder.is_live())

    async def series(self, request: Request) -> Response:
        start = _real(request, "from", 0.0)
        end = _real(request, "to", math.inf)
        asked = series.Request(
            names=tuple(request.query_params.getlist("chart")[:40]),
            start=start,
            end=end,
            points=_number(request, "points", 800, 2, MOST_POINTS),
            by_step=_one_of(request, "by", ("time", "step")) == "step",
        )
        run_id = request.path_params["run"]
        return _json(await _made(answers.charts, self.library, run_id, asked))

    async def output(self, request: Request) -> Response:
        first = request.query_params.get("first")
        number = None if first is None else _number(request, "first", 1, 1, 1 << 52)
        count = _number(request, "count", 300, 1, MOST_LINES)
        run_id = request.path_params["run"]
        return _json(await _made(answers.output, self.library, run_id, number, count))

    async def search(self, request: Request) -> Response:
        words = _text(request, "q")
        first = _number(request, "first", 1, 1, 1 << 52)
        run_id = request.path_params["run"]
        return _json(await _made(answers.search, self.library, run_id, words, first))

    async def compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")[:100]
        found = await _made(answers.comparison, self.library, names)
        if _is_json(request):
            return _json(found)
        return _html(pages.render("compare.html", found=found))

    async def group(self, request: Request) -> Response:
        kind, key = request.path_params["kind"], request.path_params["key"]
        found = await _made(answers.group, self.library, kind, key)
        if _is_json(request):
            return _json(found)
        blocks = ""
        if found["document"]:
            run_id = found["group"]["members"][0]["id"]
            top = await _made(lambda: self.library.top(self.library.folder(run_id)))
            name = answers.document_name(kind)
            blocks = await _made(pages.render_experiments, name, found["document"], top)
        return _html(pages.render("group.html", blocks, found=found))

    async def openapi(self, request: Request) -> Response:
        return _json(description())

    async def static(self, request: Request) -> Response:
        found = pages.static_file(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        body, kind = found
        return Response(body, media_type=kind, headers={"cache-control": "max-age=600"})

    async def live(self, socket: WebSocket) -> None:
        """Pushes what is new: of one run, or of the list. What a page sends is not read."""
        if self.sockets >= MOST_SOCKETS:
            await socket.close(1013, "too many pages are open")
            return
        await socket.accept()
        self.sockets += 1
        reader = asyncio.create_task(_until_closed(socket))
        writer = asyncio.create_task(self._push(socket))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.sockets -= 1
            for task in (reader, writer):
                task.cancel()
                with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await task

    async def _push(self, socket: WebSocket) -> None:
        run_id = socket.query_params.get("run")
        try:
            if run_id is None:
                async for message in self.watches.list_changes():
                    await socket.send_text(_text_of(message))
                return
            async with self.watches.watching(run_id) as queue:
                while True:
                    written = await queue.get()
                    await socket.send_text(written.text)
                    if written.is_last:
                        return
        except RerailError as error:
            await socket.send_text(_text_of({"error": error.message}))
        except (WebSocketDisconnect, RuntimeError):
            return
        finally:
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(1000)


def make_app(settings: UiSettings) -> Guard:
    """The guarded application of one store."""
    page = Pages(settings)
    routes = [
        Route("/", page.front),
        Route("/runs", page.runs),
        Route("/runs.json", page.runs),
        Route("/runs/{run}/details", page.details),
        Route("/runs/{run}/details.json", page.details),
        Route("/runs/{run}/series.json", page.series),
        Route("/runs/{run}/output.json", page.output),
        Route("/runs/{run}/search.json", page.search),
        Route("/runs/{run}.json", page.run),
        Route("/runs/{run}", page.run),
        Route("/compare", page.compare),
        Route("/compare.json", page.compare),
        Route("/groups/{kind}/{key}.json", page.group),
        Route("/groups/{kind}/{key}", page.group),
        Route("/openapi.json", page.openapi),
        Route("/static/{name}", page.static),
        WebSocketRoute("/live", page.live),
    ]
    handlers: Any = {
        HTTPException: _refused,
        RerailError: _not_answered,
        asyncio.TimeoutError: _too_slow,  # before Python 3.11 not the built-in one
        Exception: _defect,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app, settings, page.library.prepare)


async def _made(make: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.wait_for(run_in_threadpool(make, *arguments), ANSWER_SECONDS)


async def _until_closed(socket: WebSocket) -> None:
    """A page has nothing to say: what it sends ends the conversation."""
    with suppress(WebSocketDisconnect, RuntimeError):
        await socket.receive()


def _refused(request: Request, error: HTTPException) -> Response:
    words = "There is no such page." if error.status_code == 404 else str(error.detail)
    return _failure(request, error.status_code, words, "")


def _not_answered(request: Request, error: RerailError) -> Response:
    kinds = ((UnknownRun, 404), (UsageError, 400), (UnreadableInput, 422))
    status = next((status for kind, status in kinds if isinstance(error, kind)), 503)
    return _failure(request, status, error.message, error.help_text)


def _too_slow(request: Request, error: TimeoutError) -> Response:
    return _failure(request, 503, "That takes too long just now.", "Try again in a moment.")


def _defect(request: Request, error: Exception) -> Response:
    log.error("a page could not be made", exc_info=error)
    words = "This page could not be made: a defect of rerail itself."
    return _failure(request, 500, words, "The terminal in which `rerail ui` runs has the details.")


def _failure(request: Request, status: int, words: str, more: str | None) -> Response:
    if _is_json(request):
        return _json({"schema": 1, "error": words, "help": more or ""}, status)
    return _html(pages.render("error.html", status=status, words=words, more=more or ""), status)


def _is_json(request: Request) -> bool:
    return request.url.path.endswith(".json")


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(_bytes(text), status)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _text_of(value: Any) -> str:
    return json.dumps(shown_value(encode(value)), separators=(",", ":"), allow_nan=False)


def _json(value: Any, status: int = 200) -> Response:
    return Response(_text_of(value), status, media_type="application/json")


def _text(request: Request, name: str, longest: int = 200) -> str:
    text = request.query_params.get(name, "")
    if len(text) > longest:
        raise BadQuestion(f"{name} is longer than {longest} characters")
    return text


def _one_of(request: Request, name: str, allowed: tuple[str, ...]) -> str:
    value = request.query_params.get(name, "")
    if value and value not in allowed:
        raise BadQuestion(f"{name} is none of {', '.join(allowed)}")
    return value


def _number(request: Request, name: str, otherwise: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None or text == "":
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and least <= int(text) <= most):
        raise BadQuestion(f"{name} is not a whole number from {least} to {most}")
    return int(text)


def _real(request: Request, name: str, otherwise: float) -> float:
    text = request.query_params.get(name)
    if text is None or text == "":
        return otherwise
    try:
        value = float(text[:40])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not text.isascii():
        raise BadQuestion(f"{name} is not a number")
    return value
