"""What `paracord.fit` makes of its data: files of arrays, and the job's `data`."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy

Shapes = Mapping[str, Tuple[int, ...]]  # of an example, by the model's input

_PIECE = 1 << 24  # elements of a memory map that are converted at a time
_WAYS = ("give arrays, a dict of arrays or a frame, or write files and name them in "
         'job={"data": {"train": {...}}}')


class Columns:
    """Arrays by name; "" is the name of the only one."""

    def __init__(self, what: str, given: Any, names: Sequence[str], shapes: Shapes) -> None:
        self.arrays = {
            name: _shaped(_array(f"{what} {name!r}" if name else what, value), shapes.get(name))
            for name, value in _named(what, given, names).items()}
        self.what = what
        sizes = {name: len(array) for name, array in self.arrays.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"{what} has columns of different lengths: {sizes}")

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def integers(self) -> List[str]:
        """The columns of whole numbers."""
        return [name for name, array in self.arrays.items() if array.dtype.kind in "iu"]

    def refuse_texts(self) -> None:
        """Labels are numbers."""
        for name, array in self.arrays.items():
            if array.dtype.kind in "US":
                what = f"{self.what} {name!r}" if name else self.what
                raise ValueError(f"{what} has texts, such as {array.reshape(-1)[0].item()!r}, and "
                                 "labels are numbers: give each class its number, from 0 on")

    def write(self, folder: str, short: str) -> Any:
        """Writes a file for each, and returns them as a job names them."""
        files = {}
        for i, (name, array) in enumerate(self.arrays.items()):
            file = f"{short}.npy" if not name else f"{short}-{i}.npy"
            _save(os.path.join(folder, file), array)
            files[name] = os.path.join(os.path.basename(folder), file)
        return files[""] if list(files) == [""] else files


def _named(what: str, given: Any, names: Sequence[str]) -> Dict[str, Any]:
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):  # a frame of pandas or polars
        return _frame(what, given, names)
    if isinstance(given, Mapping):
        return dict(given)
    several = isinstance(given, (list, tuple)) and given and all(
        hasattr(value, "shape") for value in given)
    if several and len(names) > 1:
        if len(given) != len(names):
            raise ValueError(f"{what} has {len(given)} arrays, and the model wants {list(names)}")
        return dict(zip(names, given))
    return {"": given}


def _frame(what: str, frame: Any, names: Sequence[str]) -> Dict[str, Any]:
    there = [str(name) for name in frame.columns]
    if len(names) > 1:
        lacking = [name for name in names if name not in there]
        if lacking:
            raise ValueError(f"{what} lacks the columns {lacking}, which are inputs of the model; "
                             f"it has {there}")
        more = [name for name in there if name not in names]
        if more:
            warnings.warn(f"{what} has the columns {more}, which are no inputs of the model and "
                          "are left out", stacklevel=2)
        return {name: _column(f"{what} {name!r}", frame[name]) for name in names}
    columns = [_column(f"{what} {name!r}", frame[name]) for name in frame.columns]
    return {"": columns[0] if len(columns) == 1 else numpy.stack(columns, axis=1)}


def _column(what: str, column: Any) -> numpy.ndarray:
    """A column of a frame: missing words are "", missing numbers an error."""
    values = numpy.asarray(column.to_numpy())
    if values.dtype.kind not in "OUST":
        if values.dtype.kind == "f" and numpy.isnan(values).any():
            raise ValueError(f"{what} has {int(numpy.isnan(values).sum())} missing numbers: fill "
                             "them (fillna, fill_null) or leave the rows out")
        return values
    texts = ["" if value is None or value != value else value for value in values.tolist()]
    if all(isinstance(value, str) for value in texts):
        return numpy.array(texts, str)
    if "" in texts:
        raise ValueError(f"{what} has missing values: fill them or leave the rows out")
    return numpy.array(texts)


def _array(what: str, value: Any) -> numpy.ndarray:
    if hasattr(value, "detach"):  # a tensor of PyTorch
        value = value.detach().cpu().numpy()
    if hasattr(value, "to_numpy") and not hasattr(value, "columns"):  # a series
        value = _column(what, value)
    sized = hasattr(value, "__array__") or isinstance(value, (list, tuple, int, float))
    if not sized:
        raise TypeError(f"{what} is a {type(value).__name__}, whose size and order are not known: "
                        + _WAYS)
    array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
    if array.dtype.kind == "O":
        array = _column(what, _Whole(array)).reshape(array.shape)
    if array.ndim == 0 or not len(array):
        raise ValueError(f"{what} has no examples")
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"{what} is {array.dtype}: give numbers or texts")
    return array


class _Whole:
    """An array of objects as a column."""

    def __init__(self, array: numpy.ndarray) -> None:
        self._array = array

    def to_numpy(self) -> numpy.ndarray:
        return self._array.reshape(-1)


def _shaped(array: numpy.ndarray, shape: Optional[Tuple[int, ...]]) -> numpy.ndarray:
    """Numbers of an input that wants a vector of one."""
    return array.reshape(-1, 1) if shape == (1,) and array.ndim == 1 else array


def _save(path: str, array: numpy.ndarray) -> None:
    """float16 and float64 become float32, and bool uint8; whole numbers stay as they are."""
    kinds = {"f": "<f4", "b": "|u1"}
    dtype = numpy.dtype(kinds.get(array.dtype.kind, array.dtype))
    if not isinstance(array, numpy.memmap):
        numpy.save(path, array.astype(dtype, copy=False))
        return
    to = numpy.lib.format.open_memmap(path, "w+", dtype, array.shape)
    rows = max(1, _PIECE // max(1, array[0].size))
    for begin in range(0, len(array), rows):
        to[begin:begin + rows] = array[begin:begin + rows]
    to.flush()


def write(folder: str, train: Sequence[Optional[Columns]],
          test: Optional[Sequence[Optional[Columns]]], split: float) -> Dict[str, Any]:
    """Writes features, labels and weights of both, and returns the job's `data`."""
    os.makedirs(folder, exist_ok=True)

    def source(prefix: str, columns: Sequence[Optional[Columns]]) -> Dict[str, Any]:
        found: Dict[str, Any] = {"format": "npy"}
        rows = {len(each) for each in columns if each is not None}
        if len(rows) > 1:
            raise ValueError("the data have different numbers of examples: " + ", ".join(
                f"{len(each)} in {each.what}" for each in columns if each is not None))
        for key, short, each in zip(("features", "labels", "weights"), "xyw", columns):
            if each is not None:
                found[key] = each.write(folder, prefix + short)
        return found

    data = {"train": source("", train)}
    if test is not None:
        data["test"] = source("test-", test)
    elif split:
        data["test"] = dict(data["train"], part={"from": 1 - split, "to": 1})
        data["train"] = dict(data["train"], part={"from": 0, "to": 1 - split})
    return data
