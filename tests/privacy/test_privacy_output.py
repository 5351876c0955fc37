"""What the command prints is masked as it is written: same length, whatever its pieces."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import all_named, all_shapes

from rerail.privacy import Masker, OutputMasker, mask_file
from rerail.store import RunFolder, Store

PLANTED = [*all_shapes(5), *all_named(6)]
ORDINARY = "step 12 loss 0.5 tokens=8192 max_tokens=512 it/s 3.2\n"


def written(pieces: list[bytes], masker: Masker | None = None) -> bytes:
    """What stands in the file at the end."""
    masking = OutputMasker(masker or Masker())
    file = bytearray()
    for piece in pieces:
        masked, corrections = masking.feed(piece)
        assert len(masked) == len(piece)
        for distance, correction in corrections:
            at = len(file) - distance
            assert at >= 0 and at + len(correction) <= len(file)
            file[at : at + len(correction)] = correction
        file += masked
    return bytes(file)


def cut(text: bytes, chance: random.Random, longest: int) -> list[bytes]:
    pieces = []
    while text:
        size = chance.randint(1, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@pytest.mark.thorough
@pytest.mark.parametrize("longest", [1, 7, 60, 5000, 1 << 20])
def test_no_cut_lets_a_secret_through(longest):
    chance = random.Random(longest)
    text = "".join(
        f"{ORDINARY * chance.randint(0, 3)}{planted.text}\n" for planted in PLANTED
    ).encode()
    found = written(cut(text, chance, longest))
    for planted in PLANTED:
        for secret in planted.secrets:
            assert secret.encode() not in found, planted.kind
    assert len(found) == len(text)
    assert found.count(b"\n") == text.count(b"\n")
    assert found.count(ORDINARY.encode()) == text.count(ORDINARY.encode())


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_lengths_and_lines_are_those_of_what_was_printed(pieces):
    found = written(pieces)
    assert len(found) == sum(map(len, pieces))
    assert found.count(b"\n") == b"".join(pieces).count(b"\n")


def test_the_same_value_has_the_same_mask_and_a_known_one_is_masked_without_its_name():
    masker = Masker()
    masker.mask_command(["train.py", "--db-password", "zebra77crossing"])
    found = written([b"connecting with zebra77crossing\n", b"again zebra77crossing\n"], masker)
    assert found == b"connecting with [secret-1]*****\nagain [secret-1]*****\n"


def test_what_was_printed_before_it_was_known_is_masked_at_the_end(tmp_path):
    writer = Store(tmp_path).create_run(["x"], "/", {}, False)
    writer.output(b"value zebra77crossing\n" + ORDINARY.encode() * 2000, "stdout", 0.1)
    writer.output(b"password=zebra77crossing\n", "stdout", 0.2)
    from rerail.records import Outcome

    writer.finish(Outcome("ok", "ended"), 1.0)
    for path in writer.path.rglob("*"):
        if path.is_file() and path.name != "private.jsonl":
            assert b"zebra77crossing" not in path.read_bytes(), path
    assert RunFolder(writer.path).private().secrets == {
        1: ("zebra77crossing", "value of a secret name")
    }


def test_a_binary_file_keeps_its_layout(tmp_path):
    path = tmp_path / "x.box"
    secret = "hf_" + "a7" * 17
    before = b"\x00\x01" + secret.encode() + b"\x00\xff\x7f" + b"\x10\x00password=zebra77\x00"
    path.write_bytes(before)
    assert mask_file(path, Masker()) == 2
    after = path.read_bytes()
    assert len(after) == len(before) and secret.encode() not in after and b"zebra77" not in after
    assert after[:2] == before[:2] and after[-1:] == b"\0"


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "mine"
    target.write_text("password=zebra77crossing")
    (tmp_path / "x.box").symlink_to(target)
    with pytest.raises(OSError):
        mask_file(tmp_path / "x.box", Masker())
    assert "zebra77" in target.read_text()
