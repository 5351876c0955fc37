"""Which server is asked for a second opinion, and how."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import rerail
from rerail.diagnosis import server_of
from rerail.diagnosis.chat_server import ChatServer
from rerail.errors import UsageError

for folder in (Path(__file__).parent.parent, Path(__file__).parent.parent / "privacy"):
    sys.path.insert(0, str(folder))
from second_opinions import GOOD, OOM, opinion  # noqa: E402

from chat_completions import saying, serving  # noqa: E402


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("http://localhost:11434", "http://localhost:11434/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000/v1/chat/completions", "http://[::1]:8000/v1"),
        ("https://llm.example.org/api/openai/v1", "https://llm.example.org/api/openai/v1"),
    ],
)
def test_a_url_as_people_type_it(typed: str, base: str) -> None:
    assert server_of(typed, environ={}).base == base
    assert server_of("", environ={"RERAIL_ASK": typed}).base == base


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "train.log",
        "file:///etc/passwd",
        "ftp://x/y",
        "http://",
        "http://h:x/",
        "localhost:11434",
        "https://ada:pw@h.example",
        "http://h.example/v1",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://localhost:1/\r\nX: y",
        "http://10.0.0.3:8000",
    ],
)
def test_a_url_that_is_refused_before_anything_is_read(typed: str) -> None:
    with pytest.raises(UsageError) as refusal:
        server_of(typed, environ={})
    assert "pw" not in str(refusal.value)


def test_plain_http_to_another_machine_only_when_asked_for_and_without_a_key_of_others() -> None:
    keys = {"OPENAI_API_KEY": "b" * 20}
    server = server_of("http://h.example", may_be_plain=True, environ=keys)
    assert server.key == ""
    own = {**keys, "RERAIL_ASK_KEY": "a" * 20}
    assert server_of("http://h.example", may_be_plain=True, environ=own).key == "a" * 20
    assert server_of("https://h.example", environ=keys).key_variable == "OPENAI_API_KEY"
    assert "aaaa" not in repr(server_of("https://h.example", environ=own))


def test_a_key_with_a_line_end_never_becomes_a_header() -> None:
    with pytest.raises(UsageError) as refusal:
        server_of("https://h.example", environ={"RERAIL_ASK_KEY": "abc\r\nX-Evil: 1"})
    assert "Evil" not in str(refusal.value)


def test_what_is_meant_for_this_machine_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(saying(GOOD)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        found, asked = opinion(saying(GOOD))
        assert found.id == "gpu-oom" and asked
        assert proxy.asked == []


def test_a_proxy_is_used_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(saying(GOOD)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        server = server_of("http://llm.example.invalid", may_be_plain=True, model="m")
        assert isinstance(server, ChatServer)
        found = rerail.explain(io.StringIO(OOM), ask=server).second_opinion
    assert found is not None and found.id == "gpu-oom"
    assert proxy.asked[0].path.startswith("http://llm.example.invalid/v1/chat")


def test_a_models_name_cannot_draw_on_the_terminal() -> None:
    found, _ = opinion(saying(GOOD), model="a\x1b[2J\nb" * 50)
    assert found.model.isprintable() and len(found.model) <= 80
