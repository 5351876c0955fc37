r"""Secrets that the layout of cells or lines announces: tables, columns, lists, YAML blocks.

In: bytes of any text. Out: the values that stand in the cell, column, list or block of a secret's
name. A value is one word; what stands in a heading, a type or a sentence is none. Bounds: 200 rows
of a table, 64 lines of a block, 64 items of a list.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rerail.privacy.names import (
    PASSWORD_NAMES,
    is_ordinary_word,
    is_random,
    is_secret_value,
    is_strong_name,
    names_a_secret,
)

# What one pass of RE2 asks before anything below is looked at.
SUSPICION = (
    r"(?i:(?:passw(?:or)?d|totp)[a-z_]{0,20}|passphrase|passcode|secret|key|token|credential|creds?"
    r"|pass|pwd?|pat|jwt|psk|pswd|passwrd|kennwort)s?[\"'\x60*\x00]{0,8}"
    r"(?:[ \t]*(?:\||│|┃|║|┆|</t[dh]>)|\t|[ ]{2}|[ ]?\.{4}|[,;]\S|[ \t]*\r?\n|"
    r"[ \t]*:[ \t]*(?:[|>][+-]?\d?[ \t]*)?\r?\n[ \t]*\S|[ \t]*[:=][ \t]*(?:[{(]|\[[^s…]))"
)
_MOST_ROWS = 200
_MOST_LINES = 64
_MOST_ITEMS = 64
_LONGEST_LINE = 2000
_SHORTEST_OF_WEAK = 20

_SEPARATORS = {
    "cells": re.compile("\\||│|┃|║|┆".encode()),
    "HTML": re.compile(rb"</t[dh]>\s{0,80}<t[dh][^>\n]{0,200}>|</?t[rdh]>"),
    "tabs": re.compile(rb"\t"),
    "blanks": re.compile(rb"[ ]{2,}|[ ]?\.{4,}[ ]?"),
    "commas": re.compile(rb"[,;]"),
}
_WORD = re.compile(rb"[ \0]*[`*\"']{0,2}([^\s\0`\"']+?)[`*\"']{0,2}[ \0\r]*")
_TWO_WORDS = re.compile(rb"[ \0]*([A-Za-z]{2,20}) ([A-Za-z]{2,20})[ \0\r]*")
_NAME = re.compile(r"[A-Za-z][\w.-]{1,59}")
# A line between the rows of a table has these characters alone, and a stroke among them.
_RULE = re.compile("(?:[\\s|+:=-]|[─-╿])+")
_STROKE = re.compile("[-=]{2}|[─═━]")
_BLOCK = re.compile(
    rb"(?P<indent>[ ]*)(?:- )?[\"']?(?P<name>[\w.-]{2,60})[\"']?:[ \t]*(?P<sign>[|>][+-]?\d?)?"
    rb"[ \t]*\r?\n"
)
_ALONE = re.compile(rb"\s*([^\s:]+)\s*$")
_ITEM = re.compile(rb"- +[\"']?([^\s\"'#][^\s\"']*)[\"']?\s*$")
_LIST = re.compile(rb"(?P<name>[\w.-]{2,60})[\"']?[ \t]*[:=][ \t]*(?P<opening>[\[{(])")
_CLOSINGS = {b"[": b"]", b"{": b"}", b"(": b")"}
_LONGEST_LIST = 8000
_LISTED = re.compile(
    rb"(?:^|[,:\[({\n])\s{0,80}[\"']?([^\"'\s,\[\](){}]{4,400})(?=[\"']?\s{0,80}(?:[,\n]|$))"
)


class Cell(NamedTuple):
    start: int
    end: int
    text: str  # empty if it is not one word
    name: str  # the same, or "secret_key" of "Secret Key"


Span = tuple[int, int]


def find_in_layouts(text: bytes, suspects: Iterable[int]) -> Iterator[Span]:
    """Yield where the values stand that a table, a list or a block gives to a secret's name.

    `suspects`: where `SUSPICION` matched; only the lines there can hold such a name.
    """
    for start in sorted({text.rfind(b"\n", 0, at) + 1 for at in suspects}):
        line = _line_at(text, start)
        if len(line) <= _LONGEST_LINE:
            yield from _of_lists(text, start, start + len(line))
            yield from _of_block(text, start)
            yield from _of_table(text, start, line)


def _of_lists(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Yield the items of `name: ["…", "…"]`; the list may go on over the lines that follow.

    In braces or parentheses, which hold much else, only what a strong name announces.
    """
    for match in _LIST.finditer(text, start, end):
        name, opening = _one_of(match["name"].decode("latin-1")), match["opening"]
        closing = text.find(_CLOSINGS[opening], match.end(), match.end() + _LONGEST_LIST)
        if closing < 0 or not (names_a_secret if opening == b"[" else is_strong_name)(name):
            continue
        inside = text[match.end() : closing]
        for item in itertools.islice(_LISTED.finditer(inside), _MOST_ITEMS):
            if _is_value(name, item[1].decode("latin-1")):
                yield match.end() + item.start(1), match.end() + item.end(1)


def _of_block(text: bytes, start: int) -> Iterator[Span]:
    """Yield the lines of `name: |` and the items of `name:` that are indented below it."""
    match = _BLOCK.match(text, start)
    name = _one_of(match["name"].decode("latin-1")) if match else ""
    if match is None or not names_a_secret(name):
        return
    outer = len(match["indent"])
    for at, line in _lines_from(text, match.end(), _MOST_LINES):
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if not bare or indent < outer or (match["sign"] and indent == outer):
            return
        if match["sign"]:
            yield at + indent, at + indent + len(bare)
            continue
        item = _ITEM.match(line, indent)
        if item is None:
            word = _ALONE.match(line) if at == match.end() and indent > outer else None
            if word and is_strong_name(name) and _is_value(name, word[1].decode("latin-1")):
                yield at + word.start(1), at + word.end(1)
            return
        if _is_value(name, item[1].decode("latin-1")):
            yield at + item.start(1), at + item.end(1)


def _of_table(text: bytes, start: int, line: bytes) -> Iterator[Span]:
    below = start + len(line) + 1
    following = [row for _, row in _lines_from(text, below, 2)]
    has_rule = bool(following) and _is_rule(following[0])
    # Whether a row is a heading is known once the next line is whole.
    is_settled = not has_rule and (text.find(b"\n", below) >= 0 or len(line) == len(text))
    for separator in _SEPARATORS:
        cells = _cells(line, separator)
        named = [at for at, cell in enumerate(cells) if _is_name(cell.name)]
        if not named:
            continue
        below_cells = _cells(following[1], separator) if has_rule and len(following) == 2 else []
        is_heading = len(below_cells) > 1 and (
            separator == "blanks" or len(below_cells) == len(cells)
        )
        # Without a rule below it, a row is a heading if nothing can stand beside a name in it.
        has_values = any(at + 1 < len(cells) and cells[at + 1].text for at in named)
        is_heading |= separator in ("tabs", "blanks") and not has_rule and not has_values
        if is_heading or separator == "commas":
            rows = _lines_from(text, below, _MOST_ROWS)
            yield from _of_columns(rows, cells, named, separator)
        else:
            for cell in _beside(line, cells, named, may_be_letters=is_settled):
                yield start + cell.start, start + cell.end


def _beside(
    line: bytes, cells: list[Cell], named: list[int], *, may_be_letters: bool
) -> Iterator[Cell]:
    """Yield the cell to the right of each name; the row may be a heading without rows yet."""
    words = line.translate(None, b"|").decode("utf-8", "replace").strip("│┃║┆ \t\0\r")
    for at in named:
        if at + 1 >= len(cells) or at + 1 in named:
            continue
        name, value = cells[at].name, cells[at + 1].text
        is_first = words.startswith(cells[at].text)
        is_alone = may_be_letters and is_first and words.endswith(value)
        if not may_be_letters and not any(c.isdigit() for c in value):
            continue  # the heading of the next column
        if _is_value(name, value, is_alone=is_alone):
            yield cells[at + 1]


def _of_columns(
    rows: Iterable[tuple[int, bytes]], heading: list[Cell], named: list[int], separator: str
) -> Iterator[Span]:
    """Yield the cells below each name, as long as the rows have the form of the heading."""
    for start, row in rows:
        if len(row) > _LONGEST_LINE or not row.strip():
            return
        if _is_rule(row):
            continue
        cells = _cells(row, separator)
        if separator != "blanks" and len(cells) != len(heading):
            return
        for at in named:
            for number, cell in enumerate(cells):
                is_below = (
                    cell.start == heading[at].start or cell.end == heading[at].end
                    if separator == "blanks"
                    else number == at
                )
                if is_below and _is_value_of_column(heading[at].name, cell.text):
                    yield start + cell.start, start + cell.end


def _cells(line: bytes, separator: str) -> list[Cell]:
    """Return the cells of a row; the text of a cell that is not one word is empty."""
    pattern = _SEPARATORS[separator]
    cells, done = [], 0
    for match in pattern.finditer(line):
        cells.append(_cell(line, done, match.start()))
        done = match.end()
    if not cells:
        return []
    cells.append(_cell(line, done, len(line)))
    if separator == "commas" and (b" " in line or not all(cell.text for cell in cells)):
        return []  # a sentence
    return cells


def _cell(line: bytes, start: int, end: int) -> Cell:
    word = _WORD.fullmatch(line, start, end)
    if word is None:
        two = _TWO_WORDS.fullmatch(line, start, end)
        name = f"{two[1].decode()}_{two[2].decode()}" if two else ""
        return Cell(start, end, "", name if is_strong_name(name) else "")
    text = word[1].decode("utf-8", "replace")
    return Cell(word.start(1), word.end(1), text, text)


def _one_of(name: str) -> str:
    """Return the singular of `passwords` or `api_keys`; `missing_keys` are no secrets."""
    return name[:-1] if name.endswith("s") and is_strong_name(name[:-1]) else name


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and (
        names_a_secret(text) or text.lower() in PASSWORD_NAMES
    )


def _is_value(name: str, value: str, *, is_alone: bool = False) -> bool:
    """`is_alone`: nothing but the name and the value stands there, so letters alone may be one."""
    if not value or is_ordinary_word(value) or names_a_secret(value):
        return False
    if not is_secret_value(name, value, is_certain=False):
        return False
    if value.isalpha():
        return is_alone and is_strong_name(name) and (len(value) >= 12 or not value.islower())
    has_digit = any(c.isdigit() for c in value)
    return has_digit if not is_strong_name(name) else len(value) >= 6 or has_digit


def _is_value_of_column(name: str, value: str) -> bool:
    """Below `token`, `key` and the like stands a secret only if it can be nothing else."""
    is_weak = not is_strong_name(name) and "_" not in name
    if is_weak and name.lower() not in PASSWORD_NAMES:
        return len(value) >= _SHORTEST_OF_WEAK and is_random(value)
    return _is_value(name, value, is_alone=True)


def _is_rule(line: bytes) -> bool:
    if len(line) > _LONGEST_LINE:
        return False
    text = line.decode("utf-8", "replace")
    return _RULE.fullmatch(text) is not None and _STROKE.search(text) is not None


def _line_at(text: bytes, start: int) -> bytes:
    end = text.find(b"\n", start)
    return text[start:] if end < 0 else text[start:end]


def _lines_from(text: bytes, start: int, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield up to `most` lines with where they begin."""
    while start < len(text) and most > 0:
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start, most = end + 1, most - 1
