"""What in a text is a secret, by its shape or by the name in front of it.

In: any text. Out: spans with a kind. Two sorts of knowledge: shapes that only tokens have (the
prefix of a service, the armour of a private key, a login inside a URL), and names that announce a
secret. What the recorder masks before it writes (`recorder.masking`) is masked already; this looks
again, at what the command itself printed, and more eagerly, because it is about to leave.
docs/design/what-may-leave-the-machine.md says where the line was drawn.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rerail.recorder.masking import names_a_secret, words_of


@dataclass(frozen=True)
class Secret:
    start: int
    end: int
    kind: str


# Kind, what a text must hold for the pattern to be worth trying (a plain search is a hundred times
# quicker), pattern. The whole match is the secret.
_SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    ("Anthropic or OpenAI key", ("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),
    ("Hugging Face token", ("hf_", "api_org_"), re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}")),
    (
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ),
    (
        "GitLab token",
        ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-"),
        re.compile(r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[\w-]{16,}"),
    ),
    (
        "AWS key id",
        ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA", "ABIA", "ACCA"),
        re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ),
    (
        "Google key",
        ("AIza", "ya29.", "GOCSPX-", "1//0"),
        re.compile(r"\b(?:AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{16,}|1//0[\w-]{20,})"),
    ),
    ("Slack token", ("xox", "xapp-"), re.compile(r"\b(?:xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,})")),
    (
        "webhook",
        ("hooks.slack.com/",),
        re.compile(r"\bhooks\.slack\.com/(?:services|workflows)/[\w/-]+"),
    ),
    ("webhook", ("/api/webhooks/",), re.compile(r"\bdiscord(?:app)?\.com/api/webhooks/\d+/[\w-]+")),
    (
        "webhook",
        (".webhook.office.com/",),
        re.compile(r"\b[\w.-]+\.webhook\.office\.com/[\w@/.-]+"),
    ),
    (
        "Stripe key",
        ("k_live_", "k_test_", "whsec_"),
        re.compile(r"\b(?:[srp]k_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,})"),
    ),
    (
        "Weights & Biases key",
        ("wandb_v", "local-"),
        re.compile(r"\b(?:wandb_v\d_\w{16,}|local-[0-9a-f]{40}\b)"),
    ),
    ("JSON web token", ("eyJ",), re.compile(r"\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?")),
    ("encoded token", ("eyJ",), re.compile(r"\beyJ[A-Za-z0-9+/]{36,}={0,2}")),
    ("PyPI token", ("pypi-",), re.compile(r"\bpypi-[\w-]{16,}")),
    ("npm token", ("npm_",), re.compile(r"\bnpm_[A-Za-z0-9]{30,}")),
    ("SendGrid key", ("SG.",), re.compile(r"\bSG\.[\w-]{16,}\.[\w-]{16,}")),
    ("Twilio key", ("SK", "AC"), re.compile(r"\b(?:SK|AC)[0-9a-f]{32}\b")),
    ("Databricks token", ("dapi",), re.compile(r"\bdapi[0-9a-f]{32}\b")),
    ("DigitalOcean token", ("_v1_",), re.compile(r"\bdo[opr]_v1_[0-9a-f]{32,}")),
    ("Telegram bot token", (":AA",), re.compile(r"\b\d{8,10}:AA[\w-]{30,}")),
    ("Replicate token", ("r8_",), re.compile(r"\br8_[A-Za-z0-9]{20,}")),
    ("Groq key", ("gsk_",), re.compile(r"\bgsk_[A-Za-z0-9]{20,}")),
    ("Vault token", ("hvb.", "hvs.", "hvr."), re.compile(r"\bhv[bsr]\.[\w-]{16,}")),
    ("Docker token", ("dckr_",), re.compile(r"\bdckr_(?:pat|oat)_[\w-]{16,}")),
    ("Mailgun key", ("key-",), re.compile(r"\bkey-[0-9a-f]{32}\b")),
    (
        "Linear or Notion key",
        ("lin_api_", "ntn_", "secret_"),
        re.compile(r"\b(?:lin_api_|ntn_|secret_)[A-Za-z0-9]{24,}"),
    ),
    (
        "Fireworks or Together key",
        ("fw_", "tgp_v"),
        re.compile(r"\b(?:fw_|tgp_v\d_)[A-Za-z0-9_-]{20,}"),
    ),
    ("xAI or Perplexity key", ("xai-", "pplx-"), re.compile(r"\b(?:xai|pplx)-[A-Za-z0-9]{20,}")),
    ("NVIDIA key", ("nvapi-",), re.compile(r"\bnvapi-[\w-]{20,}")),
    ("age key", ("AGE-SECRET-KEY-1",), re.compile(r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}")),
    ("Azure key", ("AccountKey=",), re.compile(r"(?<=AccountKey=)[A-Za-z0-9+/]{20,}={0,2}")),
)

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_URL_LOGIN = re.compile(r"://(?P<secret>[^\s/\"'<>`]+)@")
_HEADER_WORDS = ("bearer", "basic", "digest", "negotiate", "authorization")
_HEADER = re.compile(
    r"(?i)\b(?:bearer|basic|digest|negotiate|authorization:?\s*token)\s+"
    r"(?P<secret>[A-Za-z0-9._~+/=-]{8,})"
)

# Where a name of a secret may lie: a quick look before names are taken apart.
_WORD = re.compile(
    r"(?i)token|secret|pass|pwd|cred|key|auth|cookie|sas|dsn|jwt|bearer|netrc|signature|webhook"
    r"|session|client|connection|database|pat"
)
# Their values are secrets also in running text, whatever they look like.
_STRONG_WORDS = frozenset(
    {"password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "apikey"}
    | {"credential", "credentials", "accesskey", "secretkey", "privatekey", "authorization"}
)
_STRONG_PAIRS = (["api", "key"], ["access", "key"], ["secret", "key"], ["private", "key"])
_REST_OF_NAME = re.compile(r"[A-Za-z0-9_-]{0,40}")
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_LONGEST_NAME = 60
_VALUE = re.compile(
    r"(?P<between>[\"']?\s{0,4}(?:=>|:=|==?|:)\s{0,4}|\s{1,4})"
    r"(?P<value>\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s\"'`,;&<>|(){}\[\]]{1,400})"
)
_HARMLESS = re.compile(
    r"(?i)^(?:none|null|nil|true|false|yes|no|on|off|auto|undefined|empty|missing|not|is|was|required"
    r"|invalid|expired|unset|set|and|or|for|the|a|an|to|in|of|str|int|bool|bytes|optional.*|string"
    r"|x+|\W+|\*\*\*.*|\$\{?\w+\}?|<.*>?|\{.*|\(.*|-?\d{1,9}(?:\.\d+)?|masked|redacted)$"
)
_AUTH_SCHEME = re.compile(r"(?i)bearer|basic|digest|negotiate|token")
_MASKED = re.compile(r"\[(?:secret|email|address)-\d+\]|(?:host|user)-\d+")


def find_secrets(text: str) -> list[Secret]:
    """All secrets of a text, in order, none overlapping; the longest wins where two would."""
    found: list[Secret] = []
    if "PRIVATE KEY" in text:
        found += [Secret(*m.span(), "private key") for m in _PRIVATE_KEY.finditer(text)]
    for kind, literals, pattern in _SHAPES:
        if any(literal in text for literal in literals):
            found += [Secret(m.start(), m.end(), kind) for m in pattern.finditer(text)]
    for match in _URL_LOGIN.finditer(text):
        if match["secret"] not in ("git", "hg", "svn"):  # git@host names nobody
            found.append(Secret(*match.span("secret"), "login in a URL"))
    has_header = any(word in text.lower() for word in _HEADER_WORDS)
    for match in _HEADER.finditer(text) if has_header else ():
        is_clear = match[0].lower().startswith(("bearer", "authorization"))
        is_header = "authorization" in text[max(0, match.start() - 20) : match.start()].lower()
        if is_clear or is_header or looks_random(match["secret"]):
            found.append(Secret(*match.span("secret"), "authorization header"))
    found += _named(text)
    return _without_overlaps(text, found)


def _named(text: str) -> Iterator[Secret]:
    done = 0
    for word in _WORD.finditer(text):
        if word.start() < done:
            continue
        name_start = _start_of_name(text, word.start())
        rest = _REST_OF_NAME.match(text, word.end())
        name_end = rest.end() if rest else word.end()
        match = _VALUE.match(text, name_end)
        if match is None:
            continue
        start, end = match.span("value")
        value = match["value"]
        if len(value) > 1 and value[0] in "\"'":
            start, end, value = start + 1, end - 1, value[1:-1]
        # "password required" is prose; "--password required" is a value.
        is_flag = text[name_start] == "-"
        if match["between"].strip() == "" and not is_flag:
            continue
        name = text[name_start:name_end].lstrip("-")
        if is_secret_value(name, value, is_certain=is_flag):
            yield Secret(start, end, "value of a secret name")
            done = end


def _start_of_name(text: str, at: int) -> int:
    lowest = max(0, at - _LONGEST_NAME)
    while at > lowest and text[at - 1] in _NAME_CHARACTERS:
        at -= 1
    return at


def is_secret_value(name: str, value: str, is_certain: bool = True) -> bool:
    """Whether the value behind this name has to go.

    `is_certain`: the name is a flag or a key, not a word of running text, where `token: expected`
    follows as easily as a token.
    """
    value = value.strip()
    if not value or _HARMLESS.match(value) or _MASKED.fullmatch(value):
        return False
    if _AUTH_SCHEME.fullmatch(value) or not names_a_secret(name.lstrip("-")):
        return False
    words = words_of(name)
    is_strong = not _STRONG_WORDS.isdisjoint(words) or words[-2:] in _STRONG_PAIRS
    if is_certain or is_strong:
        return True
    has_digit = any(c.isdigit() for c in value)
    return len(value) >= 8 and (has_digit or entropy_bits(value) > 3.5)


def looks_random(value: str) -> bool:
    """Whether some unbroken part is long, mixes letters and digits, and repeats itself little.

    `encoder.layers.0.self_attn.in_proj_weight` is long too, but of words.
    """
    return any(_is_random_part(part) for part in re.split(r"[^A-Za-z0-9+=]+", value))


def _is_random_part(part: str) -> bool:
    if len(part) < 16 or not any(c.isdigit() for c in part) or not any(c.isalpha() for c in part):
        return False
    return entropy_bits(part) >= 3.0


def entropy_bits(value: str) -> float:
    """Shannon entropy per character."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())


def _without_overlaps(text: str, found: list[Secret]) -> list[Secret]:
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda s: (s.start, -s.end)):
        if _MASKED.fullmatch(text[secret.start : secret.end]):
            continue
        if kept and secret.start < kept[-1].end:
            if secret.end > kept[-1].end:
                last = kept.pop()
                kept.append(Secret(last.start, secret.end, last.kind))
            continue
        kept.append(secret)
    return kept
