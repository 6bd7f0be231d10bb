"""Variables in safetensors files: a job's checkpoints, and weights of your own."""

from __future__ import annotations

import json
import math
import os
import re
import struct
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy

from paracord._crc32c import crc32c
from paracord._arguments import ProgramError

_TYPES = {name: numpy.dtype(dtype).newbyteorder("<") for name, dtype in (
    ("F64", "f8"), ("F32", "f4"), ("F16", "f2"), ("I64", "i8"), ("I32", "i4"), ("I16", "i2"),
    ("I8", "i1"), ("U64", "u8"), ("U32", "u4"), ("U8", "u1"))}
_CHECKPOINT = re.compile(r"step-\d+-g(\d+)-r(\d+)")


def load(path: str) -> Dict[str, numpy.ndarray]:
    """Returns arrays by name: of a safetensors file (as `paracord export` writes), of a
    checkpoint's directory, or of the newest checkpoint of a job's directory.

    Of a checkpoint it is each variable's values as they were trained; `paracord export` takes the
    averages of `use_ema`. A growing table `user/embeddings` is `user/embeddings/ids`, ascending,
    and `user/embeddings/rows`, their values, in both. Ids are int64, and those beyond 2^63 negative
    (`ids.view("uint64")` has them as they are, by which they ascend). All arrays are copies.
    """
    if os.path.isfile(path):
        return {name: tensor.read() for name, tensor in _tensors(path)[0].items()}
    if not os.path.exists(os.path.join(path, "MANIFEST.json")):
        path = _newest(path)
    checkpoint = _Checkpoint(path)
    parts: Dict[str, List[Tuple[int, str]]] = {}
    for name in checkpoint.partitions:
        variable, index = name.rsplit("/part_", 1)
        parts.setdefault(variable, []).append((int(index), name))
    variables: Dict[str, numpy.ndarray] = {}
    for variable, pieces in parts.items():
        names = [name for _, name in sorted(pieces)]
        if checkpoint.grows(names[0]):
            rows = [checkpoint.rows(name) for name in names]
            ids = numpy.concatenate([of[0] for of in rows])
            order = numpy.argsort(ids)
            variables[variable + "/ids"] = ids[order].view("<i8")
            variables[variable + "/rows"] = numpy.concatenate([of[1] for of in rows])[order]
            continue
        arrays = [checkpoint.tensor(name) for name in names]
        variables[variable] = arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays)
    return variables


class _Checkpoint:
    """A checkpoint's files (docs/checkpoints.md)."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(os.path.join(path, "MANIFEST.json"), encoding="utf-8") as file:
            self._manifest = json.load(file)
        self.partitions = {of["name"]: of for of in self._manifest["partitions"]}
        self._tensors: Dict[str, _Tensor] = {}
        self._metadata: Dict[str, str] = {}
        self._before: Optional[_Checkpoint] = None
        count = len(self._manifest["files"])
        for i, told in enumerate(self._manifest["files"]):
            part = os.path.join(path, f"ps-{i:05d}-of-{count:05d}.safetensors")
            if (os.path.getsize(part), crc32c(part)) != (told["bytes"], int(told["crc32c"], 16)):
                raise ProgramError(f"{part}: is damaged: its checksum is not the manifest's")
            tensors, metadata = _tensors(part)
            self._tensors.update(tensors)
            self._metadata.update(metadata)

    def tensor(self, name: str) -> numpy.ndarray:
        if name not in self._tensors:
            raise ProgramError(f"{self.path}: no file has the partition {name}")
        return self._tensors[name].read()

    def grows(self, partition: str) -> bool:
        return partition + "/.slot/rows" in self._tensors

    def rows(self, partition: str) -> Tuple[numpy.ndarray, numpy.ndarray]:
        """The ids and values of the rows that a growing table's partition has and that have not
        expired by this checkpoint."""
        ids, touched, values = self._merged_rows(partition)
        expire = self._variable(partition).get("table", {}).get("expire_batches", 0)
        if expire:
            age = numpy.uint32(self._table(partition)["now"]) - touched  # modulo 2^32
            kept = (age & numpy.uint32(0x7fffffff)) <= expire
            ids, values = ids[kept], values[kept]
        return ids, values

    def _merged_rows(self, partition: str) -> Tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        """Ids, the batches that touched the rows last, and values. A partition that has only the
        rows that changed is put over what the checkpoint before it has."""
        if not self.partitions[partition].get("delta"):
            return self._own_rows(partition)
        base, table = self._base(), self._table(partition)
        since = table.get("since", {})
        then = (base._table(partition)["now"], base._state(partition)["updates"])
        if (since.get("now"), since.get("updates")) != then:
            raise ProgramError(f"{self.path}: {partition} does not continue {base.path}")
        old = base._merged_rows(partition)
        own = self._own_rows(partition)
        removed = self.tensor(partition + "/.slot/removed").reshape(-1).view("<u8")
        kept = ~numpy.isin(old[0], numpy.concatenate([own[0], removed]))
        ids, touched, values = (numpy.concatenate([before[kept], after])
                                for before, after in zip(old, own))
        if len(ids) != table.get("rows"):
            raise ProgramError(f"{self.path}: {partition} has {len(ids)} rows after the changes, "
                               f"and should have {table.get('rows')}")
        return ids, touched, values

    def _own_rows(self, partition: str) -> Tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        image = self.tensor(partition + "/.slot/rows")
        shape = self._variable(partition)["shape"][1:]
        each = math.prod(shape)
        # The id, the last batch and the steps come before the values.
        head = 8 + 4 + (4 if self._table(partition)["steps"] else 0)
        if image.ndim != 2 or image.shape[1] < head + 4 * each:
            raise ProgramError(f"{self.path}: the rows of {partition} are too short")
        ids = numpy.ascontiguousarray(image[:, :8]).view("<u8").reshape(-1)
        touched = numpy.ascontiguousarray(image[:, 8:12]).view("<u4").reshape(-1)
        values = numpy.ascontiguousarray(image[:, head:head + 4 * each]).view("<f4")
        return ids, touched, values.reshape(len(ids), *shape)

    def _variable(self, partition: str) -> Any:
        return self._manifest["variables"][self.partitions[partition]["variable"]]

    def _table(self, partition: str) -> Any:
        return self._state(partition)["table"]

    def _state(self, partition: str) -> Any:
        return json.loads(self._metadata["partition:" + partition])

    def _base(self) -> _Checkpoint:
        if self._before is None:
            name = self._manifest.get("base", "")
            path = os.path.join(os.path.dirname(os.path.abspath(self.path)), name)
            if not _CHECKPOINT.fullmatch(name) or not os.path.isdir(path):
                raise ProgramError(f"{self.path}: the checkpoint {name!r} before it is missing")
            self._before = _Checkpoint(path)
        return self._before


def save(path: str, variables: Mapping[str, Any]) -> None:
    """Writes arrays as a safetensors file of their types, for a job's `initial_weights`. Mappings
    and lists of arrays have a name for each, as JAX's variables do: "dense/kernel"."""
    header: Dict[str, Any] = {}
    data: List[bytes] = []
    at = 0
    for name, value in _flat("", variables):
        try:
            array = numpy.asarray(value.detach() if hasattr(value, "detach") else value)
            type_name = next(name for name, dtype in _TYPES.items()
                             if dtype == array.dtype.newbyteorder("<"))
        except (StopIteration, TypeError, ValueError):
            kind = getattr(value, "dtype", type(value).__name__)
            raise ProgramError(f"{name} is {kind}, and paracord.save writes arrays of "
                               f"{', '.join(each.name for each in _TYPES.values())}") from None
        data.append(array.astype(_TYPES[type_name]).tobytes())
        header[name] = {"dtype": type_name, "shape": list(array.shape),
                        "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data)


def _flat(name: str, value: Any) -> Iterator[Tuple[str, Any]]:
    def is_tree(value: Any) -> bool:  # a list of numbers is an array
        return isinstance(value, Mapping) or isinstance(value, (list, tuple)) and any(
            is_tree(each) or hasattr(each, "shape") for each in value)

    if not is_tree(value):
        yield name, value
        return
    for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _flat(f"{name}/{key}" if name else str(key), each)


def _newest(directory: str) -> str:
    """The checkpoint with the greatest generation and round."""
    folder = os.path.join(directory, "checkpoints")
    found: List[Tuple[int, int, str]] = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        match = _CHECKPOINT.fullmatch(name)
        if match and os.path.exists(os.path.join(folder, name, "MANIFEST.json")):
            found.append((int(match[1]), int(match[2]), name))
    if not found:
        raise ProgramError(f"{directory} has no checkpoint")
    return os.path.join(folder, max(found)[2])


class _Tensor:
    """A tensor in a file, which is read when it is asked for."""

    def __init__(self, path: str, name: str, begin: int, entry: Dict[str, Any]) -> None:
        if entry["dtype"] not in _TYPES:
            raise ProgramError(f"{path}: {name} is of type {entry['dtype']}")
        self._path, self._name, self._shape = path, name, entry["shape"]
        self._dtype = _TYPES[entry["dtype"]]
        self._first, self._end = (begin + offset for offset in entry["data_offsets"])

    def read(self) -> numpy.ndarray:
        data = bytearray(math.prod(self._shape) * self._dtype.itemsize)
        with open(self._path, "rb") as file:
            file.seek(self._first)
            there = file.readinto(data)
        if there != len(data) or self._end - self._first != len(data):
            raise ProgramError(f"{self._path}: {self._name} is cut off")
        return numpy.frombuffer(data, self._dtype).reshape(self._shape)


def _tensors(path: str) -> Tuple[Dict[str, _Tensor], Dict[str, str]]:
    """The tensors of a file, and what it says besides."""
    with open(path, "rb") as file:
        header, begin = _header(path, file)
    metadata = header.pop("__metadata__", {})
    return {name: _Tensor(path, name, begin, entry) for name, entry in header.items()}, metadata


def _header(path: str, file: BinaryIO) -> Tuple[Dict[str, Any], int]:
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 1 << 63
    if length > 100 << 20:
        raise ProgramError(f"{path}: is no safetensors file")
    try:
        header = json.loads(file.read(length))
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise ProgramError(f"{path}: is no safetensors file")
    return header, 8 + length
