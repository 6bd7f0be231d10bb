"""Writes records of tf.train.Example in TFRecord's frame, of plain Python values."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, Callable, List, Mapping, Optional, Sequence


def _table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


def _crc_function() -> Callable[[bytes], int]:
    """google-crc32c's function, where that package is: it is a hundred times as fast."""
    try:
        import google_crc32c
        fast: Callable[[bytes], int] = google_crc32c.value
        return fast
    except ImportError:
        table = _table()

        def value(data: bytes) -> int:
            crc = 0xffffffff
            for byte in data:
                crc = crc >> 8 ^ table[(crc ^ byte) & 0xff]
            return crc ^ 0xffffffff

        return value


def _varint(number: int) -> bytes:
    number &= 2**64 - 1  # of a negative number, the two's complement
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(payload)) + payload


def _feature(kind: str, values: Sequence[Any]) -> bytes:
    """A tf.train.Feature: its bytes_list, float_list or int64_list."""
    if kind == "bytes":
        return _field(1, b"".join(_field(1, value) for value in values))
    if kind == "float":
        return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))
    return _field(3, _field(1, b"".join(map(_varint, values))))


class Writer:
    """Writes to a file that is open; `kinds` has "int64", "float" or "bytes" for each feature."""

    def __init__(self, file: BinaryIO, kinds: Mapping[str, str]) -> None:
        self._file = file
        self._crc = _crc_function()
        self._features = [(_field(1, name.encode()), kind) for name, kind in kinds.items()]

    def _masked(self, data: bytes) -> bytes:
        crc = self._crc(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)

    def write(self, row: Sequence[Optional[Sequence[Any]]]) -> None:
        """Writes a record of the values of each feature; the record lacks those that are None."""
        parts = []
        for (name, kind), values in zip(self._features, row):
            if values is not None:
                parts.append(_field(1, name + _field(2, _feature(kind, values))))
        data = _field(1, b"".join(parts))
        length = struct.pack("<Q", len(data))
        self._file.write(length + self._masked(length) + data + self._masked(data))
