"""Secrets to plant: made at run time from the table's forms, so that no file of ours holds one.

A form such as `ghp_<a36>` becomes a text; what in it is secret is what the row's pattern says. The
seed is fixed: the same secrets in every run of the tests.
"""

from __future__ import annotations

import random
import re
import string
from typing import NamedTuple

from rerail.privacy.shapes import SHAPES

ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "x": string.ascii_letters,
}
_BLANK = re.compile(r"<([ahdulwbx])(\d+)>")


class Planted(NamedTuple):
    kind: str
    text: str  # as it is printed
    secrets: tuple[str, ...]  # the random parts that must be nowhere


def make(kind: str, form: str, chance: random.Random, shortest: int = 10) -> Planted:
    secrets: list[str] = []

    def fill(blank: re.Match[str]) -> str:
        alphabet, length = ALPHABETS[blank[1]], int(blank[2])
        value = "".join(chance.choice(alphabet) for _ in range(length))
        # Begins and ends with a letter or digit, and has both sorts, as what generators give.
        value = chance.choice("abcdef") + value[1:-2] + "7" + chance.choice("abcdef")
        if blank[1] == "d":
            value = "1" + value[1:-2].translate(str.maketrans("abcdef", "123456")) + "23"
        if blank[1] == "x":
            value = value.replace("7", "Q")
        if blank[1] == "u":
            value = value.upper()
        if length >= shortest:
            secrets.append(value)
        return value

    text = _BLANK.sub(fill, form)
    return Planted(kind, text, tuple(secrets))


def all_shapes(seed: int = 7) -> list[Planted]:
    """One of each row of the table."""
    chance = random.Random(seed)
    return [make(shape.kind, shape.example, chance) for shape in SHAPES]


NAMED = {
    "flag": "--db-password <a14>",
    "flag with =": "--wandb-api-key=<h40>",
    "flag in a list": "['train.py', '--hf-token', '<a20>']",
    "variable": "export SMTP_PASSWORD=<a12>",
    "quoted variable": "AWS_SECRET_ACCESS_KEY='<b40>'",
    "JSON": '{"client_secret": "<a24>", "user": "ada"}',
    "YAML": "  neptune_api_token: <a40>",
    "Python": "Namespace(lr=0.1, api_key='<a32>', epochs=3)",
    "escaped JSON": '{\\"password\\": \\"<a14>\\"}',
    "coloured": "\x1b[32m'comet_api_key'\x1b[0m: \x1b[33m'<a25>'\x1b[0m",
    "header": "X-Api-Key: <a32>",
    "connection string": "Server=db;User Id=ada;Password=<a14>;",
}


def all_named(seed: int = 8) -> list[Planted]:
    chance = random.Random(seed)
    return [make(f"named: {how}", form, chance) for how, form in NAMED.items()]
