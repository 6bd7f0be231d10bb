"""The CRC-32C of files, which a checkpoint's manifest has."""

from __future__ import annotations

from typing import Any, BinaryIO, List, Tuple

import numpy

_BLOCK = 20  # 2^20 bytes are read at a time
# By k: the remainders that follow upon 2^k bytes of zeros, by the lower and by the upper half of
# the remainder before.
_Zeros = Tuple[numpy.ndarray, numpy.ndarray]
_zeros: List[_Zeros] = []


def crc32c(file: BinaryIO) -> int:
    """Remainders are linear: that of two pieces is that of the first, with as many zeros behind it
    as the second has bytes, xor that of the second. So pairs of words are joined, then pairs of
    those, and zeros in front change nothing."""
    if not _zeros:
        _make_zeros()
    remainder: Any = numpy.uint32(0xffffffff)
    for block in iter(lambda: file.read(1 << _BLOCK), b""):
        words = numpy.zeros(1 << max(len(block) - 1, 3).bit_length() >> 2, "<u4")
        words.view(numpy.uint8)[-len(block):] = numpy.frombuffer(block, numpy.uint8)
        k = 2
        while len(words) > 1:
            words = _after(words[0::2], k) ^ words[1::2]
            k += 1
        for k in range(_BLOCK + 1):
            if len(block) >> k & 1:
                remainder = _after(remainder, k)
        remainder = remainder ^ _after(words[0], 2)
    return int(remainder) ^ 0xffffffff


def _after(remainders: Any, k: int) -> Any:
    low, high = _zeros[k]
    return low[remainders & 0xffff] ^ high[remainders >> 16]


def _make_zeros() -> None:
    low = numpy.arange(1 << 16, dtype=numpy.uint32)
    halves = [low, low << 16]
    for i, half in enumerate(halves):
        for _ in range(8):
            half = (half >> 1) ^ ((half & 1) * numpy.uint32(0x82f63b78))
        halves[i] = half
    _zeros.append((halves[0], halves[1]))
    while len(_zeros) <= _BLOCK:
        k = len(_zeros) - 1
        _zeros.append((_after(_zeros[k][0], k), _after(_zeros[k][1], k)))
