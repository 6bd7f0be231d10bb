"""Variables in safetensors files: a job's checkpoints, and weights of your own."""

from __future__ import annotations

import contextlib
import io
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
_FORMAT = 6  # of checkpoints, the newest that is read here
_SEAL = re.compile(rb',\n "manifest_crc32c": "([0-9a-f]{8})"\n}\n\Z')  # ends a manifest


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """What cannot be understood of a file is said as one error that names the file."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError,
            RecursionError) as error:
        raise ProgramError(f"{path}: is damaged: {error!r}") from error


def _refuse_url(call: str, path: str, instead: str) -> None:
    """Says that a URL is no path, which the file system would take for one."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", os.fspath(path))
    if scheme:
        raise ProgramError(f"{path}: paracord.{call} takes a path of this machine, and "
                           f"{scheme[1]}:// is none: {instead}")


def load(path: str) -> Dict[str, numpy.ndarray]:
    """Returns arrays by name: of a safetensors file (as `paracord export` writes), of a
    checkpoint's directory, or of the newest checkpoint of a job's directory.

    Of a checkpoint it is each variable's values as they were trained; `paracord export` takes the
    averages of `use_ema`. A growing table `user/embeddings` is `user/embeddings/ids`, ascending,
    and `user/embeddings/rows`, their values, in both. Ids are int64, and those beyond 2^63 negative
    (`ids.view("uint64")` has them as they are, by which they ascend). All arrays are copies.
    """
    _refuse_url("load", path, "`paracord export --dir URL --out FILE` writes a job's newest "
                "checkpoint from there into a file")
    if os.path.isfile(path):
        return {name: tensor.read() for name, tensor in _tensors(path)[0].items()}
    if not os.path.exists(os.path.join(path, "MANIFEST.json")):
        path = _newest(path)
    checkpoint = _Checkpoint(path)
    variables: Dict[str, numpy.ndarray] = {}
    for variable, names in checkpoint.parts().items():
        if checkpoint.grows(names[0]):
            rows = [checkpoint.rows(name) for name in names]
            ids = numpy.concatenate([of[0] for of in rows])
            order = numpy.argsort(ids)
            variables[variable + "/ids"] = ids[order].view("<i8")
            variables[variable + "/rows"] = numpy.concatenate([of[1] for of in rows])[order]
            continue
        variables[variable] = checkpoint.whole(names)
    return variables


def result_of(path: str) -> Tuple[Dict[str, numpy.ndarray], List[str]]:
    """What `paracord export` would write of a job's directory, of a checkpoint's, or has written
    into this file, but for growing tables: the variables, averages where a job has them, and the
    names of the tables that are left out."""
    variables: Dict[str, numpy.ndarray] = {}
    if os.path.isfile(path):
        tensors = _tensors(path)[0]
        tables = [name[:-5] for name in tensors
                  if name.endswith("/rows") and name[:-5] + "/ids" in tensors]
        parts = {f"{table}/{part}" for table in tables for part in ("ids", "rows")}
        return {name: tensor.read() for name, tensor in tensors.items()
                if name not in parts}, tables
    checkpoint = _Checkpoint(_chosen(path))
    tables = []
    for variable, names in checkpoint.parts().items():
        if checkpoint.grows(names[0]):
            tables.append(variable)
        else:
            variables[variable] = checkpoint.whole(names, averages=True)
    return variables, tables


def job_of(path: str) -> Any:
    """The job of the checkpoint that `result_of` reads."""
    manifest = os.path.join(_chosen(path), "MANIFEST.json")
    with _reading(manifest):
        return json.loads(_manifest(manifest)["job"])


class _Checkpoint:
    """A checkpoint's files (docs/checkpoints.md)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.path.join(path, "MANIFEST.json")
        self._manifest = _manifest(self._file)
        self._tensors: Dict[str, _Tensor] = {}
        self._metadata: Dict[str, str] = {}
        self._before: Optional[_Checkpoint] = None
        with _reading(self._file):
            self.partitions = {of["name"]: of for of in self._manifest["partitions"]}
            self.identity = (self._manifest["run_id"], int(self._manifest["generation"]),
                             int(self._manifest["round"]))
            name = "step-{}-g{}-r{}".format(self._manifest["step"], *self.identity[1:])
            if os.path.basename(os.path.abspath(path)) != name:
                raise ProgramError(f"{self._file}: is the manifest of {name}, and a checkpoint's "
                                   "directory has its name")
            files = [(told["name"], told["bytes"], int(told["crc32c"], 16))
                     for told in self._manifest["files"]]
        for i, told in enumerate(files):
            self._take(f"ps-{i:05d}-of-{len(files):05d}.safetensors", f"{i}/{len(files)}", *told)

    def _take(self, name: str, ps: str, told: str, size: int, crc: int) -> None:
        """Takes over the tensors and texts of the file of one ps."""
        path = os.path.join(self.path, name)
        if told != name:
            raise ProgramError(f"{self._file}: names the file {told!r} where {name} belongs")
        try:
            with open(path, "rb") as file:
                there = (os.fstat(file.fileno()).st_size, crc32c(file))
        except OSError as error:
            raise ProgramError(f"{path}: cannot be read: {error.strerror}") from error
        if there != (size, crc):
            raise ProgramError(f"{path}: is damaged: its checksum is not the manifest's")
        tensors, metadata = _tensors(path)
        run, generation, number = self.identity
        own = {"format": "paracord.ps", "run_id": run, "generation": str(generation),
               "round": str(number), "ps": ps}
        for key, value in own.items():
            if metadata.get(key) != value:
                raise ProgramError(f"{path}: is of another checkpoint: its {key} is "
                                   f"{metadata.get(key)!r}, not {value!r}")
        self._tensors.update(tensors)
        self._metadata.update(metadata)

    def parts(self) -> Dict[str, List[str]]:
        """The partitions of each variable, in their order: all of its rows, each once."""
        with _reading(self._file):
            parts: Dict[str, List[str]] = {}
            ends: Dict[str, int] = {}
            for of in sorted(self._manifest["partitions"],
                             key=lambda of: (of["variable"], of["row_begin"])):
                variable = self._manifest["variables"][of["variable"]]
                name, names = variable["name"], parts.setdefault(variable["name"], [])
                begin, end = of["row_begin"], of["row_end"]
                if (of["name"] != f"{name}/part_{len(names)}" or begin != ends.get(name, 0)
                        or end < begin):
                    raise ProgramError(f"{self._file}: is damaged: {of['name']} of rows {begin} "
                                       f"to {end} does not follow {ends.get(name, 0)} rows")
                names.append(of["name"])
                ends[name] = end
            for variable in self._manifest["variables"]:
                rows = variable["shape"][0] if variable["shape"] else 1
                if ends.get(variable["name"]) != rows:
                    raise ProgramError(f"{self._file}: is damaged: {variable['name']} has "
                                       f"partitions of {ends.get(variable['name'], 0)} of {rows} "
                                       "rows")
            return parts

    def tensor(self, name: str) -> numpy.ndarray:
        if name in self.partitions and self.partitions[name].get("delta"):
            return self._changed(name)
        if name not in self._tensors:
            raise ProgramError(f"{self.path}: no file has the partition {name}")
        values = self._tensors[name].read()
        if name in self.partitions:
            with _reading(self._file):
                shape = list(self._variable(name)["shape"])
                if shape:
                    of = self.partitions[name]
                    shape[0] = of["row_end"] - of["row_begin"]
            if list(values.shape) != shape:
                raise ProgramError(f"{self.path}: {name} has the shape {list(values.shape)}, and "
                                   f"its manifest says {shape}")
        return values

    def whole(self, partitions: List[str], averages: bool = False) -> numpy.ndarray:
        """A variable's values, or their averages, where the job's optimizer has some."""
        arrays = [self.tensor(name) for name in partitions]
        for i, name in enumerate(partitions):
            if averages and name + "/.slot/average" in self._tensors:
                arrays[i] = self.tensor(name + "/.slot/average").reshape(arrays[i].shape)
        return arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays)

    def grows(self, partition: str) -> bool:
        with _reading(self._file):
            return self._variable(partition).get("table", {}).get("kind") == "growing"

    def _changed(self, partition: str) -> numpy.ndarray:
        """The rows of a fixed table's partition that has only those that changed, put over what the
        checkpoint before it has."""
        values = self._continued(partition).tensor(partition).copy()
        ids, _, own = self._own_rows(partition)
        with _reading(self._file):
            begin, end = (int(self.partitions[partition][key]) for key in ("row_begin", "row_end"))
        if len(set(ids.tolist())) != len(ids) or ((ids < begin) | (ids >= end)).any():
            raise ProgramError(f"{self.path}: {partition} has rows that are not its own, or twice")
        values[(ids - numpy.uint64(begin)).astype("i8")] = own
        return values

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
        table = self._table(partition)
        old = self._continued(partition)._merged_rows(partition)
        own = self._own_rows(partition)
        removed = self.tensor(partition + "/.slot/removed").reshape(-1).view("<u8")
        kept = ~numpy.isin(old[0], numpy.concatenate([own[0], removed]))
        ids, touched, values = (numpy.concatenate([before[kept], after])
                                for before, after in zip(old, own))
        if len(ids) != table.get("rows"):
            raise ProgramError(f"{self.path}: {partition} has {len(ids)} rows after the changes, "
                               f"and should have {table.get('rows')}")
        return ids, touched, values

    def _continued(self, partition: str) -> _Checkpoint:
        """The checkpoint before this one, which has the partition as it was."""
        base = self._base()
        with _reading(self._file):
            since = self._table(partition).get("since", {})
            state = base._state(partition)  # a fixed table that has all rows says no `table`
            then = (state.get("table", {}).get("now", 0), state["updates"])
            name = os.path.basename(base.path)
            if ((since.get("now"), since.get("updates")) != then
                    or since.get("base", name) != name):
                raise ProgramError(f"{self.path}: {partition} does not continue {base.path}")
        return base

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
        with _reading(self.path):
            return json.loads(self._metadata["partition:" + partition])

    def _base(self) -> _Checkpoint:
        if self._before is None:
            name = str(self._manifest.get("base", ""))
            path = os.path.join(os.path.dirname(os.path.abspath(self.path)), name)
            if not _CHECKPOINT.fullmatch(name) or not os.path.isdir(path):
                raise ProgramError(f"{self.path}: the checkpoint {name!r} before it is missing")
            before = _Checkpoint(path)
            if (before.identity[0] != self.identity[0]
                    or before.identity[1:] >= self.identity[1:]):
                raise ProgramError(f"{self.path}: continues {name}, which is not an older "
                                   "checkpoint of its run")
            self._before = before
        return self._before


def _manifest(path: str) -> Any:
    """The manifest in a file, which is whole, unchanged, and of a version that is read here."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read: {error.strerror}") from error
    seal = _SEAL.search(text)
    if seal is None:
        raise ProgramError(f"{path}: is torn: its end is missing")
    if crc32c(io.BytesIO(text[:seal.start()])) != int(seal[1], 16):
        raise ProgramError(f"{path}: is damaged: its checksum is wrong")
    with _reading(path):
        manifest = json.loads(text)
        if manifest["format"] != "paracord.checkpoint":
            raise ProgramError(f"{path}: is no manifest of a checkpoint")
        if manifest["min_reader_version"] > _FORMAT:
            raise ProgramError(f"{path}: needs a reader of format "
                               f"{manifest['min_reader_version']}, and paracord.load reads "
                               f"{_FORMAT}: a newer package")
        return manifest


def save(path: str, variables: Mapping[str, Any]) -> None:
    """Writes arrays as a safetensors file of their types, for a job's `initial_weights`. Mappings
    and lists of arrays have a name for each, as JAX's variables do: "dense/kernel"."""
    _refuse_url("save", path, "write a file, and copy it there with the store's own tool")
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
    return _all(directory)[0]


def _chosen(path: str) -> str:
    """The checkpoint that `paracord export` takes of a job's directory: the newest one whose values
    are finite, or the best one, where the job is done and restores that."""
    if os.path.exists(os.path.join(path, "MANIFEST.json")):
        return path
    found = _all(path)
    newest = _manifest(os.path.join(found[0], "MANIFEST.json"))
    with _reading(found[0]):
        best = ((newest.get("summary") or {}).get("best") or {}).get("checkpoint")
        best = os.path.join(os.path.dirname(found[0]), str(best))
        if newest.get("complete") and best in found:
            return best
    for directory in found:
        if _manifest(os.path.join(directory, "MANIFEST.json")).get("healthy", True):
            return directory
    raise ProgramError(f"{path}: no checkpoint is healthy: each has values that are not finite")


def _all(directory: str) -> List[str]:
    """The checkpoints of a job's directory, the newest first."""
    folder = os.path.join(directory, "checkpoints")
    found: List[Tuple[int, int, str]] = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        match = _CHECKPOINT.fullmatch(name)
        if match and os.path.exists(os.path.join(folder, name, "MANIFEST.json")):
            found.append((int(match[1]), int(match[2]), name))
    if not found:
        raise ProgramError(f"{directory} has no checkpoint")
    return [os.path.join(folder, name) for _, _, name in sorted(found, reverse=True)]


class _Tensor:
    """A tensor in a file, which is read when it is asked for."""

    def __init__(self, path: str, name: str, begin: int, entry: Dict[str, Any]) -> None:
        if entry["dtype"] not in _TYPES:
            raise ProgramError(f"{path}: {name} is of type {entry['dtype']}")
        self._path, self._name, self._shape = path, name, entry["shape"]
        self._dtype = _TYPES[entry["dtype"]]
        self._first, self._end = (begin + offset for offset in entry["data_offsets"])

    def read(self) -> numpy.ndarray:
        with _reading(self._path):
            size = math.prod(self._shape) * self._dtype.itemsize
            if self._end - self._first != size or self._end > os.path.getsize(self._path):
                raise ProgramError(f"{self._path}: {self._name} is cut off")
            data = bytearray(size)
            with open(self._path, "rb") as file:
                file.seek(self._first)
                file.readinto(data)
            return numpy.frombuffer(data, self._dtype).reshape(self._shape)


def _tensors(path: str) -> Tuple[Dict[str, _Tensor], Dict[str, str]]:
    """The tensors of a file, and what it says besides."""
    with open(path, "rb") as file:
        header, begin = _header(path, file)
    with _reading(path):
        metadata = header.pop("__metadata__", {})
        return ({name: _Tensor(path, name, begin, entry) for name, entry in header.items()},
                dict(metadata))


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
