"""Predictions of a job's checkpoint, and what its model is given: `paracord predict --serve`
computes them, so that no rule is written twice (docs/serve.md)."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import struct
import subprocess
import threading
from fnmatch import fnmatchcase
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy

from paracord._arguments import ProgramError

_DTYPES = {"F32": "<f4", "I64": "<i8", "U8": "u1"}
_TEXT_AT_ONCE = 1 << 24  # bytes of rows in a request
_LAST_LINES = 20
_EXACT_BELOW = 1 << 53  # smaller whole numbers are exact in a float of 64 bits

Columns = Mapping[str, Any]


def _command(given: Optional[str]) -> str:
    """The program `paracord`: what somebody said, or what PARACORD says, or the one on the PATH."""
    said = given or os.environ.get("PARACORD")
    found = shutil.which(said or "paracord")
    if found is None:
        raise ProgramError(f"the program {said or 'paracord'} is not found: name it, "
                           "command=\"/usr/bin/paracord\", or set PARACORD to its path")
    return found


def _frame(tensors: Mapping[str, numpy.ndarray], texts: Mapping[str, str]) -> bytes:
    """A safetensors image, and before it its length."""
    header: Dict[str, Any] = {"__metadata__": dict(texts)}
    data: List[bytes] = []
    at = 0
    for name, array in sorted(tensors.items(), key=lambda item: item[1].dtype == numpy.uint8):
        dtype = next(known for known, code in _DTYPES.items()
                     if numpy.dtype(code) == array.dtype)
        data.append(array.tobytes())
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<QQ", 8 + len(text) + at, len(text)) + text + b"".join(data)


def _parse(frame: bytes) -> Tuple[Dict[str, numpy.ndarray], Dict[str, str]]:
    begin = 8 + struct.unpack_from("<Q", frame)[0]
    header = json.loads(frame[8:begin])
    texts = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        tensors[name] = numpy.frombuffer(
            frame[begin + first:begin + end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, texts


def _array(name: str, column: Any) -> numpy.ndarray:
    """What somebody gave for an input, in a type that requests have: strings are bytes with zeros
    behind, along a last axis of their own."""
    array = numpy.asarray(column)
    if array.dtype.kind in "OU":
        try:
            texts = [str(text).encode() for text in array.reshape(-1).tolist()]
            array = numpy.array(texts).reshape(array.shape)
        except ValueError as error:
            raise ProgramError(f"input {name!r}: {error}") from error
    if array.dtype.kind == "S":
        width = max(array.dtype.itemsize, 1)
        return array.astype(f"S{width}").view("u1").reshape(*array.shape, width)
    if array.dtype.kind in "iu":
        return array.astype("<i8")
    if array.dtype.kind in "fb":
        return array.astype("<f4")
    raise ProgramError(f"input {name!r} is of {array.dtype}, and must be numbers or strings")


def _lacks(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or the NA of pandas, which is equal to nothing and has
    no truth."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _check_ids(name: Any, values: Sequence[Any]) -> None:
    """Refuses floats that need not be the id that somebody means."""
    for row, value in enumerate(values):
        if not isinstance(value, (float, numpy.floating)) or _lacks(value):
            continue
        if not float(value).is_integer() or abs(value) >= _EXACT_BELOW:
            raise ProgramError(
                f"column {name!r} has ids, and row {row} the float {float(value)!r}: a float holds "
                "an id only as a whole number below 2**53; give ids as integers or strings (pandas "
                "makes floats of integers where one is missing: read such a column with "
                "dtype=\"Int64\")")


def _field(value: Any, trims: bool) -> Any:
    """A value as a field of a CSV; what is missing is an empty one. `trims`: without the blanks
    around it, which the reader would leave to a field in quotes."""
    if isinstance(value, (list, tuple, dict, set)) or getattr(value, "ndim", 0):
        raise ProgramError("a column of a csv has a value for each row, as the file has it (words, "
                           f"numbers, a list as its text), and {value!r} is none")
    if isinstance(value, bytes):
        value = value.decode()
    if _lacks(value):
        return ""
    return value.strip(" \t") if trims and isinstance(value, str) else value


def _refusal(said: str) -> ProgramError:
    """What the process said, with the argument of `predictor` in the place of the flag."""
    return ProgramError(said.replace("this process is started with --allow-programs",
                                     "paracord.predictor is given allow_programs=True"))


class Served:
    """A process that answers. It ends with `close`, or with this process. Thread-safe."""

    def __init__(self, arguments: Sequence[str], command: Optional[str]) -> None:
        self._lock = threading.Lock()
        self._said: List[bytes] = []
        self._process = subprocess.Popen(
            [_command(command), "predict", "--serve", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        try:
            _, texts = self._receive()
        except ProgramError:
            self.close()
            raise
        self.batch = int(texts.get("batch", "1"))
        self.takes_rows = texts.get("rows") == "csv"
        self.ids = json.loads(texts.get("ids") or "[]")  # columns: names, patterns and numbers
        self.trims = texts.get("trim") == "yes"
        self.model = texts.get("model", "")

    def _listen(self) -> None:
        """Keeps the last lines that the process says, for an error."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = [*self._said[1 - _LAST_LINES:], line]

    def _receive(self) -> Tuple[Dict[str, numpy.ndarray], Dict[str, str]]:
        out = self._process.stdout
        assert out is not None
        head = out.read(8)
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        frame = out.read(size)
        if not size or len(frame) < size:
            self._process.wait()
            self._reader.join(1)
            said = b"".join(self._said).decode(errors="replace").strip()
            raise _refusal(said or f"paracord predict ended with {self._process.returncode}")
        return _parse(frame)

    def ask(self, tensors: Mapping[str, numpy.ndarray],
            texts: Mapping[str, str]) -> Dict[str, numpy.ndarray]:
        with self._lock:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(_frame(tensors, texts))
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the process says why, or that it is closed
            answer, told = self._receive()
        if "error" in told:
            raise _refusal(told["error"])
        return answer

    def close(self) -> None:
        """Ends the process, whose input has ended then."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended before
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None and self._process.poll() is None:
            self._process.kill()
            self.close()

    def columns(self, given: Union[Columns, Any], want: str) -> Dict[str, numpy.ndarray]:
        """Asks in requests of a size, and joins the answers."""
        pieces = [self.ask(request, {"want": want}) for request in self._requests(given)]
        names = pieces[0] if pieces else {}
        return {name: numpy.concatenate([piece[name] for piece in pieces]) for name in names}

    def _requests(self, given: Any) -> List[Dict[str, numpy.ndarray]]:
        if not isinstance(given, Mapping):
            if hasattr(given, "columns") and hasattr(given, "to_dict"):  # of pandas or polars
                given = {name: given[name].to_list() for name in given.columns}
            else:
                given = {"": given}
        if not given:
            raise ProgramError("there are no columns")
        return self._rows(given) if self.takes_rows else self._arrays(given)

    def _arrays(self, given: Columns) -> List[Dict[str, numpy.ndarray]]:
        arrays = {f"inputs/{name}": _array(name, column) for name, column in given.items()}
        counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        self._check_counts(counts)
        examples = next(iter(counts.values()))
        return [{name: array[at:at + self.batch] for name, array in arrays.items()}
                for at in range(0, examples, self.batch)]

    @staticmethod
    def _check_counts(counts: Mapping[str, int]) -> None:
        if len(set(counts.values())) != 1 or 0 in counts.values():
            raise ProgramError("columns have as many values each, one at least: "
                               + ", ".join(f"{name!r} has {n}" for name, n in counts.items()))

    def _is_id(self, name: str, place: int) -> bool:
        """Whether a column has ids; without names it is known by its number, or its place."""
        number = int(name) if name.isdecimal() else place
        return any(fnmatchcase(name, column) if isinstance(column, str) else number == column
                   for column in self.ids)

    def _rows(self, given: Columns) -> List[Dict[str, numpy.ndarray]]:
        """Columns of a file as the text of a CSV, in pieces."""
        columns = {name: list(column.tolist() if hasattr(column, "tolist") else column)
                   for name, column in given.items()}
        self._check_counts({name: len(column) for name, column in columns.items()})
        if all(isinstance(name, int) for name in columns):  # "*" takes columns in their order
            columns = {number: columns[number] for number in sorted(columns)}
        for place, (name, values) in enumerate(columns.items()):
            if self._is_id(str(name), place):
                _check_ids(name, values)
        requests: List[Dict[str, numpy.ndarray]] = []
        text = io.StringIO()
        # With both characters at the ends of lines, fields that hold either are in quotes.
        writer = csv.writer(text, lineterminator="\r\n")

        def end() -> None:
            data = numpy.frombuffer(text.getvalue().encode(), "u1")
            requests.append({"csv": data})
            text.seek(0)
            text.truncate()

        for row in zip(*columns.values()):
            if not text.tell():
                writer.writerow(columns)
            writer.writerow([_field(value, self.trims) for value in row])
            if text.tell() > _TEXT_AT_ONCE:
                end()
        if text.tell():
            end()
        return requests


class Predictor(Served):
    """Calls give predictions: an array, or of several outputs a dict of them.

    `columns` is a dict of a file's columns, where the job's data are csv, else of the model's
    inputs, or a frame of pandas or polars.
    """

    def __call__(self, columns: Any) -> Any:
        outputs = {name[len("output/"):]: array
                   for name, array in self.columns(columns, "outputs").items()}
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def rows(self, table: str, ids: Any) -> numpy.ndarray:
        """Rows of a growing table ("user/embeddings"), one for each id; of an id that has none the
        values with which it would begin."""
        wanted = numpy.asarray(ids)
        if wanted.dtype.kind not in "iu":
            words = wanted.dtype.kind in "OSU"
            raise ProgramError(f"ids are of {wanted.dtype}, and must be whole numbers"
                               + ("; paracord.features gives those of words, as the model gets "
                                  "them" if words else ""))
        flat = numpy.ascontiguousarray(wanted.reshape(-1)).astype(
            "<u8" if wanted.dtype.kind == "u" else "<i8").view("<i8")
        rows = self.ask({"ids": flat}, {"want": "rows", "table": table})["rows"]
        return rows.reshape(*wanted.shape, -1)


class Features(Served):
    """Calls give what a model gets for rows: a dict of arrays by input."""

    def __call__(self, columns: Any) -> Dict[str, Any]:
        inputs = {}
        for name, array in self.columns(columns, "inputs").items():
            if array.dtype == numpy.uint8:  # strings, a line of JSON for each batch
                lines = array.tobytes().decode().rstrip("\n").split("\n")
                array = numpy.array([text for line in lines for text in json.loads(line)])
            inputs[name[len("inputs/"):]] = array
        return inputs


def predictor(directory: str, *, step: Optional[int] = None, device: str = "auto",
              batch: Optional[int] = None, job: Optional[str] = None,
              allow_programs: bool = False, memory_limit: Optional[str] = None,
              command: Optional[str] = None) -> Predictor:
    """Returns a callable that predicts with the checkpoint of a job's directory, as `paracord
    predict` does. It holds a process of its own until it is closed; `memory_limit` ("2GiB") is
    that process'."""
    arguments = ["--dir", directory, "--device", device]
    if step is not None:
        arguments += ["--step", str(step)]
    if batch is not None:
        arguments += ["--batch", str(batch)]
    if allow_programs:
        arguments.append("--allow-programs")
    if memory_limit is not None:
        arguments += ["--memory-limit", memory_limit]
    if job is not None:
        arguments.append(job)
    return Predictor(arguments, command)


def features(job: str, *, command: Optional[str] = None) -> Features:
    """Returns a callable that turns rows into what the model of a job gets: hashes, numbers of
    vocabularies, ids. `job` is a job file, or the directory of a job."""
    arguments = ["--dir", job] if os.path.isdir(job) else [job]
    return Features(arguments, command)
