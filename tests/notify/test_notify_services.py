"""Chats, ntfy and mail servers through Apprise, as they are really asked."""

from __future__ import annotations

import json
import sys
from email import message_from_bytes, policy
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apprise", reason="the extra `notify` is not installed")

sys.path.insert(0, str(Path(__file__).parent))
from receiving import (
    Receiving,
    Sent,
    chats,
    last_run,
    notified,
    python,
    rerail,
    web_server,
    with_status,
    without_end,
)

from rerail.notify.delivery import deliver
from rerail.notify.message import Message
from rerail.notify.receivers import read_receivers, why_unusable

DIES = "print('step 4 loss 0.5', flush=True)\nraise ValueError('the label_id is *7*')"
FACT = "died: ValueError: the label_id is *7* in <string>:2 (step 4)."

# Of the right form; composed, so that nobody takes them for real ones that have leaked.
SLACK_PATH = f"{'T0' * 4}/{'B0' * 4}/{'sLack9' * 4}"
DISCORD_PATH = f"/api/webhooks/{'41' * 5}/{'disCord7' * 4}"
TEAMS = (
    "https://prod-12.westeurope.logic.azure.com:443/workflows/643e69f83c8944/triggers/manual"
    "/paths/invoke?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0"
    f"&sig={'teAms5' * 4}"
)


def texts_in(value: Any) -> str:
    """Every text of a document, whatever its form."""
    if isinstance(value, dict):
        return "\n".join(texts_in(item) for item in value.values())
    if isinstance(value, list):
        return "\n".join(texts_in(item) for item in value)
    return value if isinstance(value, str) else ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        (f"https://hooks.slack.com/services/{SLACK_PATH}", "hooks.slack.com", "/services/T0T0"),
        (f"slack://{SLACK_PATH}", "hooks.slack.com", "/services/T0T0"),
        (f"https://discord.com{DISCORD_PATH}", "discord.com", DISCORD_PATH),
        (TEAMS, "prod-12.westeurope.logic.azure.com", "/workflows/643e69f83c8944/triggers/manual"),
        ("https://ntfy.sh/my-topic-81", "ntfy.sh", "/"),
    ],
)
def test_a_chat_by_the_address_that_it_gives_out(
    tmp_path: Path, url: str, host: str, path: str
) -> None:
    with chats(tmp_path) as (received, variables):
        words = ("run", "--notify", url, *python(DIES))
        done = rerail(*words, home=tmp_path / "home", cwd=tmp_path, environ=variables)
        sent = received.next()
    assert done.returncode == 1 and "notified" not in done.stderr
    assert sent.headers["host"] == host and sent.path.startswith(path)
    said = texts_in(sent.document)
    run = last_run(tmp_path / "home")
    short = run.id.rpartition("-")[2]
    plain = unescape(said.replace("\\", ""))  # as the chat shows it: Slack wants &lt; for <
    assert FACT in plain and f"rerail explain {short}" in plain and "step 4" in plain
    assert said.count("the label") == 1
    assert "github" not in said and "apprise" not in said.lower()  # no picture from elsewhere
    assert notified(run)[0]["sent"] is True
    for file in run.path.rglob("*"):
        if file.is_file() and file.name != "private.jsonl":
            kept = file.read_bytes()
            assert [s for s in (b"sLack9", b"disCord7", b"teAms5") if s in kept] == []


def test_ntfy_on_a_machine_of_ones_own(tmp_path: Path) -> None:
    with web_server() as server:
        url = server.url.replace("http://", "ntfy://") + "/my-topic"
        rerail("run", "--notify", url, *python(DIES), home=tmp_path, cwd=tmp_path)
        document = server.next().document
    assert (document["topic"], document["title"]) == ("my-topic", FACT)
    assert document["message"].splitlines()[-1].startswith("rerail explain ")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (with_status(500), "it answers with status 500"),
        (with_status(307, {"Location": "/"}), "it sends us to another address (status 307)"),
        (without_end, ""),
    ],
)
def test_a_service_that_answers_badly(tmp_path: Path, answer: Any, why: str) -> None:
    with web_server(answer) as server:
        url = server.url.replace("http://", "json://")
        words = ("run", "--notify", url, *python("raise SystemExit(7)"))
        done = rerail(*words, home=tmp_path, cwd=tmp_path)
        assert len(server.all()) == 1
    assert done.returncode == 7
    assert why in done.stderr and "json://… " in done.stderr


def test_a_scheme_that_nobody_knows() -> None:
    """Without the sender's process, whose answer a run waits for only a few seconds."""
    (receiver,) = read_receivers(["slak://a/b/c"], {})
    assert receiver.shown == "slak://…" and why_unusable(receiver) is None
    why = deliver(receiver, Message("end", "ended well"))
    assert why is not None and why.startswith("Apprise does not know such a URL")


@pytest.mark.thorough
def test_a_mail_server(tmp_path: Path) -> None:
    controller = pytest.importorskip("aiosmtpd.controller", reason="aiosmtpd is not installed")
    received = Receiving("")

    class Inbox:
        async def handle_DATA(  # noqa: N802
            self, server: Any, session: Any, envelope: Any
        ) -> str:
            headers = {"from": envelope.mail_from, "to": ",".join(envelope.rcpt_tos)}
            received.arrived.put(Sent("", headers, envelope.content))
            return "250 OK"

    class AnyPort(controller.Controller):  # type: ignore[name-defined,misc]
        def _trigger_server(self) -> None:
            self.port = self.server.sockets[0].getsockname()[1]
            super()._trigger_server()

    server = AnyPort(Inbox(), hostname="127.0.0.1", port=0)
    server.start()
    try:
        url = f"mailto://127.0.0.1:{server.port}?from=rerail@example.org&to=ada@example.org"
        rerail("run", "--notify", url, *python(DIES), home=tmp_path, cwd=tmp_path)
        sent = received.next()
        rerail("run", "--notify", url, *python("pass"), home=tmp_path, cwd=tmp_path)
        second = received.next()
    finally:
        server.stop()
    mail: Any = message_from_bytes(sent.raw, policy=policy.default)
    assert (sent.headers["from"], sent.headers["to"]) == ("rerail@example.org", "ada@example.org")
    assert " ".join(mail["Subject"].split()) == FACT
    lines = mail.get_content().splitlines()
    assert lines[0] == FACT and lines[2].startswith("rerail explain ")
    healthy: Any = message_from_bytes(second.raw, policy=policy.default)
    assert healthy["Subject"].startswith("finished after ")
    assert json.dumps(notified(last_run(tmp_path))).count("example.org") == 0
