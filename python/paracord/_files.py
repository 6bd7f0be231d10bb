"""Variables in safetensors files: a job's checkpoints, and weights of your own."""

from __future__ import annotations

import json
import math
import os
import re
import struct
from typing import Any, BinaryIO, Dict, List, Mapping, Tuple

import numpy

from paracord._program import ProgramError

_TYPES = {"F32": numpy.float32, "F64": numpy.float64, "F16": numpy.float16,
          "I64": numpy.int64, "I32": numpy.int32, "U8": numpy.uint8}


def load(path: str) -> Dict[str, numpy.ndarray]:
    """Returns arrays by name: of a safetensors file (as `paracord export` writes), of a
    checkpoint's directory, or of the newest checkpoint of a job's directory.

    Of a checkpoint it is each variable's values as they were trained; `paracord export` takes the
    averages of `use_ema`.
    """
    if os.path.isfile(path):
        return _read(path)
    if not os.path.exists(os.path.join(path, "MANIFEST.json")):
        path = _newest(path)
    with open(os.path.join(path, "MANIFEST.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    tensors: Dict[str, numpy.ndarray] = {}
    for i in range(len(manifest["files"])):
        name = f"ps-{i:05d}-of-{len(manifest['files']):05d}.safetensors"
        tensors.update(_read(os.path.join(path, name)))
    parts: Dict[str, List[Tuple[int, numpy.ndarray]]] = {}
    for partition in manifest["partitions"]:
        name = partition["name"]
        if name not in tensors:
            raise ProgramError(f"{path}: no file has the partition {name}")
        index = int(name.rsplit("/part_", 1)[1])
        parts.setdefault(name.rsplit("/part_", 1)[0], []).append((index, tensors[name]))
    variables = {}
    for name, pieces in parts.items():
        ordered = [array for _, array in sorted(pieces, key=lambda piece: piece[0])]
        variables[name] = ordered[0] if len(ordered) == 1 else numpy.concatenate(ordered)
    return variables


def save(path: str, variables: Mapping[str, Any]) -> None:
    """Writes arrays as a safetensors file, for a job's `initial_weights`."""
    header, data = {}, []
    at = 0
    for name, value in variables.items():
        array = numpy.ascontiguousarray(value, dtype="<f4").reshape(numpy.shape(value))
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        data.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data)


def _newest(directory: str) -> str:
    """The checkpoint with the greatest generation and round."""
    folder = os.path.join(directory, "checkpoints")
    found: List[Tuple[int, int, str]] = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        match = re.fullmatch(r"step-\d+-g(\d+)-r(\d+)", name)
        if match and os.path.exists(os.path.join(folder, name, "MANIFEST.json")):
            found.append((int(match[1]), int(match[2]), name))
    if not found:
        raise ProgramError(f"{directory} has no checkpoint")
    return os.path.join(folder, max(found)[2])


def _read(path: str) -> Dict[str, numpy.ndarray]:
    with open(path, "rb") as file:
        header, begin = _header(path, file)
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            if entry["dtype"] not in _TYPES:
                raise ProgramError(f"{path}: {name} is of type {entry['dtype']}")
            dtype = numpy.dtype(_TYPES[entry["dtype"]]).newbyteorder("<")
            first, end = entry["data_offsets"]
            file.seek(begin + first)
            data = file.read(end - first)
            if len(data) != math.prod(entry["shape"]) * dtype.itemsize:
                raise ProgramError(f"{path}: {name} is cut off")
            tensors[name] = numpy.frombuffer(data, dtype).reshape(entry["shape"])
        return tensors


def _header(path: str, file: BinaryIO) -> Tuple[Dict[str, Any], int]:
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 1 << 63
    if length > 100 << 20:
        raise ProgramError(f"{path}: is no safetensors file")
    return json.loads(file.read(length)), 8 + length
