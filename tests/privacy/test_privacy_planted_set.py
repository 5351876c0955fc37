"""240 planted secrets through the maskers, each alone, and the layouts that must stay readable."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from planted_second_set import second_set
from planted_set import PLACES, Entry, planted_set

from rerail.privacy import Masker, OutputMasker

ENTRIES = planted_set()
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_PIECE = 17  # bytes that arrive at once: less than most secrets


def printed_in_pieces(masker: Masker, text: str) -> str:
    output, data, kept = OutputMasker(masker), f"step 1\n{text}\nstep 2\n".encode(), bytearray()
    for at in range(0, len(data), _PIECE):
        written, corrections = output.feed(data[at : at + _PIECE])
        for back, right in corrections:
            kept[len(kept) - back : len(kept) - back + len(right)] = right
        kept += written
    return kept.decode("utf-8", "replace")


def without_colours(text: str) -> str:
    return _COLOUR.sub("", text)


def words_of_flag(text: str) -> list[str]:
    flag, _, value = text.partition(" ")
    return [text] if "=" in flag else [flag, value]


def masked(entry: Entry) -> list[str]:
    """Return the entry as the recorder keeps it, in each way that its place has."""
    masker, text = Masker(), entry.planted.text
    if entry.place == "environment":
        name, _, value = text.partition("=")
        return [str(masker.mask_environment({name: value}))]
    if entry.place == "flags":
        return masker.mask_command(["python", "train.py", *words_of_flag(text), "--lr", "0.1"])
    if entry.place == "paths":
        return [masker.mask_text(text), *masker.mask_command(["cat", text])]
    return [masker.mask_text(text), printed_in_pieces(Masker(), text)]


def leaks_of(entry: Entry) -> list[str]:
    seen = "\n".join(without_colours(text) for text in masked(entry))
    return [secret for secret in entry.planted.secrets if secret in seen]


def test_the_set_has_its_size():
    assert len(ENTRIES) == 240 and len(PLACES) == 8
    assert len({entry.planted.kind.partition(": ")[2] for entry in ENTRIES}) >= 90
    assert sum(entry.is_held_out for entry in ENTRIES) == 60
    assert all(entry.planted.secrets for entry in ENTRIES)


@pytest.mark.parametrize("place", PLACES)
def test_no_planted_secret_stays(place):
    leaks = [entry.planted.kind for entry in ENTRIES if entry.place == place and leaks_of(entry)]
    assert leaks == []


def test_of_the_second_set_stays_what_the_page_names():
    entries = second_set()
    assert len(entries) == 240 and len({entry.planted.kind for entry in entries}) == 240
    stay = {entry.planted.kind for entry in entries if leaks_of(entry)}
    assert stay == {"paths: name in a folder", "exceptions: redis"}


@pytest.mark.parametrize(
    "text",
    [
        "| token | count |\n|-------|-------|\n| the | 12 |\n| cat42x | 3 |",
        "│ password │ Description │\n├──────────┼─────────────┤\n│ required │ yes │",
        "| secret | type |\n| password | string |",
        "password  required",
        "user, password\nHello, world1234",
        "token,count\nabc,12\nhello42world,3",
        "missing_keys: ['encoder.layer1.weight', 'encoder.layer2.bias']",
        "tokens: ['inter', '##national', 'isation', '2023']",
        "keys:\n  - encoder.layer1.weight\n  - step",
        "credentials:\n  missing in /data/x1",
        "the secret is out, the password is required",
        "columns = ('password', 'username', 'email')",
        "BYPASS=1 COMPASS=north",
        "key        value\n---        -----\nlr         0.001\nbatch_1    hello1234",
        "monkey      chimpanzee1\nturkey      country22",
        "if token > threshold12345: password > 8characters1",
        "| primary key | value12345 |\nPrimary Key      batch_id_17",
        "no credentials found for project: MyProject2024",
        "no API key found for model: ResNet50Backbone",
        "password must have at least: 12characters",
        "| Token | Count |\n|-------|-------|\n| Kubernetes2024 | 12 |",
        "https://host.example.org:8080/path/@ada http://host:80/a@b",
        "args: ['train.py', '-p', '8080', '--out', 'x']",
    ],
)
def test_ordinary_layouts_stay_readable(text):
    assert Masker().mask_text(text) == text
    assert printed_in_pieces(Masker(), text) == f"step 1\n{text}\nstep 2\n"


def test_a_block_ends_with_its_indentation():
    text = "db:\n  password: |\n    first line1\n    second9\n  port: 5432\n"
    shown = Masker().mask_text(text)
    assert "first" not in shown and "second9" not in shown
    assert shown.endswith("\n  port: 5432\n")


def test_items_of_a_list_are_known_one_by_one():
    masker = Masker()
    masker.mask_text('{"api_keys": ["k1aaabbbccc", "k2dddeeefff"]}')
    assert masker.mask_text("retry with k2dddeeefff") == "retry with [secret-2]"


def test_a_coloured_secret_is_known_without_its_colours():
    masker = Masker()
    masker.mask_text("db_password=\x1b[33mab12\x1b[1mcd34ef\x1b[0m")
    assert masker.mask_text("retry with ab12cd34ef") == "retry with [secret-1]"


def test_ordinary_words_of_real_logs_stay():
    """At most one in 200; the logs are no part of the repository."""
    parents = Path(__file__).resolve().parents[3:5]
    folder = next(
        (p / "shared/corpus" for p in parents if (p / "shared/corpus").is_dir()), parents[0]
    )
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.open()]
    if len(lines) < 30:
        pytest.skip("there are no labelled logs beside the repository")
    words = gone = 0
    for line in lines[:60]:
        log = json.loads(line)["log"]
        ordinary = Counter(log.split())
        words += ordinary.total()
        gone += (ordinary - Counter(Masker().mask_text(log).split())).total()
    assert words > 1000 and gone * 200 <= words
