"""Who is told: what is a URL, what a command, and what may be shown of it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.errors import UsageError
from rerail.notify import notifier_of
from rerail.notify.receivers import Receiver, read_receivers, why_unusable
from rerail.privacy import Masker

SLACK = f"https://hooks.slack.com/services/{'T0' * 4}/{'B0' * 4}/{'sLack9' * 4}"


def one(text: str) -> Receiver:
    (receiver,) = read_receivers([text], {})
    return receiver


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("https://example.org/hook/abc?token=1", "webhook", "https://example.org/…"),
        ("http://127.0.0.1:8080/x", "webhook", "http://127.0.0.1/…"),
        ("https://ada:pw@ci.example.org/x", "webhook", "https://ci.example.org/…"),
        ("https://eo5x9k2.m.pipedream.net", "webhook", "https://….m.pipedream.net/…"),
        (SLACK, "service", "https://hooks.slack.com/…"),
        ("https://discord.com/api/webhooks/1/x", "service", "https://discord.com/…"),
        ("https://ntfy.sh/my-secret-topic", "service", "https://ntfy.sh/…"),
        ("slack://TokenA/TokenB/TokenC/#general", "service", "slack://…"),
        ("ntfys://my-secret-topic", "service", "ntfys://…"),
        ("mailto://ada:pw@example.org", "service", "mailto://…"),
        ("mailto:ada@example.org", "mail", "mailto:…"),
        ("notify-send rerail", "command", "the command notify-send"),
        ("TOKEN=abc /usr/bin/curl -H 'X: y' https://example.org", "command", "the command curl"),
        ("'torn", "command", "the command of --notify"),
        ("https://example.org/x y", "command", "the command of --notify"),
    ],
)
def test_what_is_typed(text: str, kind: str, shown: str) -> None:
    assert (one(text).kind, one(text).shown) == (kind, shown)


@given(
    st.sampled_from(["https", "slack", "ntfy", "mailto", "json", "workflows"]),
    st.text(string.ascii_lowercase + string.digits, min_size=6).filter(lambda t: not t.isalpha()),
    st.lists(st.text(string.ascii_letters, min_size=6).map(lambda t: f"{t}7"), min_size=1),
)
def test_nothing_secret_is_shown(scheme: str, token: str, path: list[str]) -> None:
    receiver = one(f"{scheme}://{token}:{token}@{token}.host.example/{'/'.join(path)}?k={token}")
    assert token not in receiver.shown
    assert not any(part in receiver.shown for part in path)
    assert {token, *path} <= set(receiver.secrets)


@given(st.text())
def test_any_text_is_a_receiver_or_nothing(text: str) -> None:
    for receiver in read_receivers([text], {}):
        assert receiver.shown.isprintable()
        assert receiver.secrets
        why_unusable(receiver)


def test_the_variable_holds_lines_or_urls_and_the_option_goes_before_it() -> None:
    value = "https://a.example/1 ntfy://topic\nnotify-send 'a run'\n\n"
    found = [receiver.text for receiver in read_receivers([], {"RERAIL_NOTIFY": value})]
    assert found == ["https://a.example/1", "ntfy://topic", "notify-send 'a run'"]
    typed = read_receivers(["true", "true"], {"RERAIL_NOTIFY": value})
    assert [receiver.text for receiver in typed] == ["true"]


def test_what_cannot_be_used_is_known_before() -> None:
    assert why_unusable(one("https://example.org/x")) is None
    assert why_unusable(one("http://localhost:1/x")) is None
    assert "plain http" in (why_unusable(one("http://example.org/x")) or "")
    assert why_unusable(one("https://")) is not None
    assert why_unusable(one("https://a:b:c/")) is not None


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rerail.notify.receivers.find_spec", lambda name: None)
    assert why_unusable(one(SLACK)) == "it needs Apprise: pip install 'rerail[notify]'"
    assert why_unusable(one("https://example.org/x")) is None
    assert why_unusable(one("true")) is None


def test_events_that_there_are_not() -> None:
    with pytest.raises(UsageError, match="death, stall, proof, end"):
        notifier_of(["true"], "death,birth", {})
    with pytest.raises(UsageError, match="empty"):
        notifier_of([" "], None, {})
    assert notifier_of([], None, {}) is None
    assert notifier_of([], None, {"RERAIL_NOTIFY": "true"}) is not None


def test_the_address_is_a_secret_of_every_command_and_environment() -> None:
    masker = Masker()
    masked = masker.mask_command(["rerail", "run", "--notify", "ntfy://my-topic-9", "--", "true"])
    assert masked[:3] == ["rerail", "run", "--notify"] and "topic" not in masked[3]
    assert "9" not in masker.mask_command(["rerail", "run", "--notify=ntfys://h/topic9"])[2]
    assert masker.mask_command(["train", "--notify", "always"]) == ["train", "--notify", "always"]
    environ = masker.mask_environment({"RERAIL_NOTIFY": "https://a.example/hook-1"})
    assert "hook" not in environ["RERAIL_NOTIFY"]
