"""A file of TensorBoard's events with texts in it, beside those of a training.

In: a folder, texts by their tag, the step and the time they belong to. Out: a new file in it; no
other file is touched. Written by hand, without TensorBoard: its writer brings TensorFlow's
interface, gRPC and a second of imports for a record of three fields, and may be in an environment
that is broken by now. The format is fixed: records of TFRecord around a protocol buffer.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

_STRING = 7  # DT_STRING
_MOST_STEP = (1 << 63) - 1


def write_event_file(folder: Path, texts: Mapping[str, str], step: int, unix: float) -> Path:
    """OSError where it cannot be written. The name sorts behind those of the run itself."""
    name = f"events.out.tfevents.{int(unix)}.{platform.node() or 'host'}.{os.getpid()}.rerail"
    events = [_field(3, b"brain.Event:2")]
    events += [_varint_field(2, min(step, _MOST_STEP)) + _summary(t, x) for t, x in texts.items()]
    stamp = b"\x09" + struct.pack("<d", unix)
    octets = b"".join(_record(stamp + event) for event in events)
    path = folder / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(octets)
    return path


def _summary(tag: str, text: str) -> bytes:
    tensor = _varint_field(1, _STRING) + _field(2, _field(2, _varint_field(1, 1)))
    tensor += _field(8, text.encode("utf-8", "replace"))
    metadata = _field(1, _field(1, b"text"))
    value = _field(1, tag.encode("utf-8", "replace")) + _field(8, tensor) + _field(9, metadata)
    return _field(5, _field(1, value))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    """CRC-32C, turned and shifted as TFRecord has it. zlib's is of another polynomial."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc = _TABLE[(crc ^ octet) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<L", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return found


_TABLE = _table()


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
