"""What the addresses take and give, as an OpenAPI 3.1 description: `/openapi.json`.

Each kind of answer is described once, under `components`; the pages without `.json` give the same
as HTML.
"""

from __future__ import annotations

import functools
from typing import Any

import rerail
from rerail.ui.rows import STATES
from rerail.ui.settings import MOST_LINES, MOST_POINTS, MOST_RUNS_COMPARED

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_FLAG: Schema = {"type": "boolean"}
_ANY: Schema = {"type": "object"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _document(**properties: Schema) -> Schema:
    return _object(schema={"const": 1}, **properties)


_STATE: Schema = {"enum": list(STATES)}
_SCHEMAS: dict[str, Schema] = {
    "Row": _object(
        id=_TEXT,
        kind={"enum": ["run", "isolate", "verify", "study", "restarts"]},
        key=_TEXT,
        state=_STATE,
        name=_TEXT,
        words=_TEXT,
        headline=_TEXT,
        command=_TEXT,
        step=_or_null(_WHOLE),
        cause=_or_null(_TEXT),
        label=_or_null(_TEXT),
        started_unix=_NUMBER,
        started=_TEXT,
        elapsed_seconds=_or_null(_NUMBER),
        elapsed=_TEXT,
        members=_list(_ref("Row")),
        member_count=_WHOLE,
    ),
    "Runs": _document(
        home=_TEXT,
        counts=_object(runs=_WHOLE, live=_WHOLE, failed=_WHOLE),
        causes=_list(_TEXT),
        found=_WHOLE,
        page=_WHOLE,
        pages=_WHOLE,
        rows=_list(_ref("Row")),
        unreadable=_list(_object(id=_TEXT, why=_TEXT)),
        problem=_or_null(_TEXT),
    ),
    "Run": _document(
        run=_ANY,
        state=_STATE,
        words=_TEXT,
        name=_TEXT,
        group=_or_null(_object(kind=_TEXT, key=_TEXT)),
        step=_or_null(_WHOLE),
        elapsed_seconds=_or_null(_NUMBER),
        has_diagnosis=_FLAG,
        top=_ANY,
        standing=_or_null(_ANY),
    ),
    "Details": _document(document=_ANY),
    "Series": _document(
        run=_TEXT,
        names=_list(_TEXT),
        span=_list(_NUMBER),
        marks=_list(_object(t=_NUMBER, label=_TEXT)),
        charts=_list(
            _object(
                name=_TEXT,
                title=_TEXT,
                unit={"enum": ["bytes", "count", "seconds", "cores", "number"]},
                summary=_TEXT,
                log=_FLAG,
                x=_list(_or_null(_NUMBER)),
                series=_list(
                    _object(
                        label=_TEXT,
                        kind={"enum": ["area", "line", "peak", "limit"]},
                        tone=_WHOLE,
                        values=_list(_or_null(_NUMBER)),
                    )
                ),
            )
        ),
    ),
    "Output": _document(
        run=_TEXT, lines=_list(_object(number=_WHOLE, text=_TEXT)), dropped_bytes=_WHOLE
    ),
    "Found": _document(
        run=_TEXT,
        words=_TEXT,
        lines=_list(_object(number=_WHOLE, text=_TEXT)),
        is_complete=_FLAG,
    ),
    "Comparison": _document(
        runs=_list(
            _object(
                id=_TEXT,
                name=_TEXT,
                state=_STATE,
                words=_TEXT,
                command=_TEXT,
                step=_or_null(_WHOLE),
            )
        ),
        differences=_list(
            _object(
                name=_TEXT,
                rows=_list(_object(what=_TEXT, values=_list(_TEXT))),
                same=_WHOLE,
            )
        ),
    ),
    "Group": _document(
        group=_ref("Row"),
        command=_TEXT,
        beliefs=_list(_object(text=_TEXT, probability=_NUMBER)),
        document=_ANY,
        cells=_list(_ANY),
    ),
    "Failure": _document(error=_TEXT, help=_TEXT),
}


def _parameter(name: str, schema: Schema, what: str, place: str = "query") -> Schema:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": schema,
        "description": what,
    }


def _whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


_RUN = _parameter("run", {"type": "string", "pattern": "^[^/]+$"}, "the id of a run", "path")
_WORDS: Schema = {"type": "string", "maxLength": 200}


def _path(answer: str, summary: str, *parameters: Schema) -> Schema:
    def content(name: str) -> Schema:
        return {"application/json": {"schema": _ref(name)}}

    failures = {
        status: {"description": words, "content": content("Failure")}
        for status, words in (
            ("400", "a parameter is not what it should be"),
            ("404", "there is no such run"),
            ("422", "the record cannot be read"),
            ("503", "it takes too long, or the store cannot be read"),
        )
    }
    refusals = {
        status: {"description": words, "content": {"text/plain": {"schema": _TEXT}}}
        for status, words in (
            ("401", "without the token"),
            ("403", "from another site"),
            ("405", "another method than GET and HEAD"),
            ("413", "with a body"),
            ("414", "too long an address"),
            ("421", "under another name"),
        )
    }
    answers = {"200": {"description": summary, "content": content(answer)}}
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {**answers, **failures, **refusals},
        }
    }


@functools.lru_cache(maxsize=1)
def description() -> Schema:
    kinds = {"enum": ["isolate", "verify", "study", "restarts"]}
    paths = {
        "/runs.json": _path(
            "Runs",
            "the runs on record, live ones first; a group of runs is one row",
            _parameter("q", _WORDS, "words that stand anywhere in a row"),
            _parameter("state", {"enum": list(STATES)}, "how it stands"),
            _parameter("cause", _WORDS, "the id of its leading cause"),
            _parameter("command", _WORDS, "words of its command"),
            _parameter("label", _WORDS, "words of its label"),
            _parameter("page", _whole(1, 1_000_000), "which page of the list"),
        ),
        "/runs/{run}.json": _path("Run", "how a run stands, and the top of its page", _RUN),
        "/runs/{run}/details.json": _path("Details", "all that `rerail report` shows", _RUN),
        "/runs/{run}/series.json": _path(
            "Series",
            "charts of a stretch of the run; of each bucket the lowest and the highest stay",
            _RUN,
            _parameter("chart", _list(_TEXT), "which charts; all if none is named"),
            _parameter("from", _NUMBER, "seconds since the start"),
            _parameter("to", _NUMBER, "seconds since the start"),
            _parameter("points", _whole(2, MOST_POINTS), "at most so many of each series"),
            _parameter("by", {"enum": ["time", "step"]}, "what step time and loss are drawn over"),
        ),
        "/runs/{run}/output.json": _path(
            "Output",
            "lines of output from `first` on, or the last ones",
            _RUN,
            _parameter("first", _whole(1, 1 << 52), "the number of the first line"),
            _parameter("count", _whole(1, MOST_LINES), "how many"),
        ),
        "/runs/{run}/search.json": _path(
            "Found",
            "lines of output that hold the words",
            _RUN,
            {**_parameter("q", {**_WORDS, "minLength": 1}, "the words"), "required": True},
            _parameter("first", _whole(1, 1 << 52), "where to begin"),
        ),
        "/compare.json": _path(
            "Comparison",
            "what differs between runs",
            {
                **_parameter(
                    "run",
                    {
                        **_list({"type": "string", "minLength": 1}),
                        "minItems": 2,
                        "maxItems": MOST_RUNS_COMPARED,
                        "uniqueItems": True,
                    },
                    "ids of the runs",
                ),
                "required": True,
            },
        ),
        "/groups/{kind}/{key}.json": _path(
            "Group",
            "an investigation, a verification, a study, or attempts of one run",
            _parameter("kind", kinds, "what it is", "path"),
            _parameter("key", {"type": "string", "pattern": "^[^/]+$"}, "its key", "path"),
        ),
        "/openapi.json": {
            "get": {
                "summary": "this description",
                "responses": {
                    "200": {
                        "description": "OpenAPI 3.1",
                        "content": {"application/json": {"schema": _ANY}},
                    }
                },
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rerail ui",
            "version": rerail.__version__,
            "description": "The runs on record, read-only. Every address without `.json` is the "
            "same as a page; `/live` is a WebSocket that pushes what is new of the list, or with "
            "`?run=ID` of one run.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
