"""Converts Parquet, ORC and Feather (Arrow) files to CSV or TFRecord, and prints the job's `data`:

    python3 -m paracord.convert [--to csv|tfrecord] [--label COLUMN] [--jobs N] IN... OUT/

Each file is read in pieces and becomes one in OUT, which appears when it is whole. Whole numbers
stay exact, over all 64 bits. pyarrow reads the files: pip install pyarrow.

Of a model.keras or .h5 it writes model and weights apart, by Keras (_keras_file.py).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from paracord._tfrecord import Writer

if __name__ == "__main__" and any(word.endswith((".keras", ".h5")) for word in sys.argv[1:]):
    from paracord._keras_file import main as convert_keras
    sys.exit(convert_keras())

try:
    import pyarrow
    import pyarrow.compute as compute
except ImportError:
    sys.exit("paracord.convert: there is no pyarrow, which reads these files: pip install pyarrow")

_ROWS = 65536  # that are in memory at a time
_WORDS = 1000  # of a label of texts, above which it is no class
_LABELS = ("label", "target", "y", "class", "click", "clicked", "churn", "income", "rating")
_SEPARATORS = ("|", "\x1f")


class ConvertError(Exception):
    """What a user has to know of a file or a column."""


@dataclasses.dataclass
class Column:
    """A column of the files, and what was seen of its values."""

    name: str
    kind: str  # "id", "numeric", "string" or "bytes": how a job reads it
    is_list: bool = False
    separator: str = "|"
    nulls: bool = False
    longest: int = 1  # of its lists
    words: Dict[str, None] = dataclasses.field(default_factory=dict)  # of a label

    def seen(self, other: Column) -> None:
        self.nulls |= other.nulls
        self.longest = max(self.longest, other.longest)
        self.words.update(other.words)


# ---- reading


def _batches(path: str, columns: Optional[List[str]] = None) -> Tuple[Any, Iterator[Any]]:
    """The schema of a file, and its rows in pieces."""
    with open(path, "rb") as file:
        start = file.read(8)
    if start.startswith(b"PAR1"):
        from pyarrow import parquet
        whole = parquet.ParquetFile(path)
        # Of all groups at once, pyarrow would keep what it has read.
        return whole.schema_arrow, (
            batch for i in range(whole.num_row_groups)
            for batch in whole.iter_batches(_ROWS, row_groups=[i], columns=columns))
    if start.startswith(b"ORC"):
        from pyarrow import orc
        stripes = orc.ORCFile(path)
        return stripes.schema, (batch for i in range(stripes.nstripes)
                                for batch in _pieces(stripes.read_stripe(i, columns)))
    if start.startswith(b"ARROW1"):
        arrow = pyarrow.ipc.open_file(pyarrow.memory_map(path))
        return arrow.schema, (
            piece for i in range(arrow.num_record_batches)
            for piece in _pieces(_chosen(arrow.get_batch(i), columns)))
    if start.startswith(b"FEA1"):
        from pyarrow import feather
        table = feather.read_table(path, columns=columns)
        return table.schema, iter(table.to_batches(_ROWS))
    if start.startswith(b"Obj\x01"):
        raise ConvertError(f"{path}: is Avro, which pyarrow does not read; write it as Parquet")
    raise ConvertError(f"{path}: is no Parquet, ORC or Feather file")


def _pieces(batch: Any) -> Iterator[Any]:
    for begin in range(0, batch.num_rows, _ROWS):
        yield batch.slice(begin, _ROWS)


def _chosen(batch: Any, columns: Optional[List[str]]) -> Any:
    return batch if columns is None else batch.select(columns)


# ---- what columns are


def _kind(what: str, of: Any) -> str:
    """What a job takes values of a type for."""
    types = pyarrow.types
    if types.is_dictionary(of):
        return _kind(what, of.value_type)
    if types.is_integer(of) or types.is_temporal(of):
        if types.is_interval(of):
            raise ConvertError(f"{what} is {of}, which is no one number: leave it out")
        return "id"
    if types.is_boolean(of) or types.is_floating(of) or types.is_decimal(of):
        return "numeric"
    if types.is_string(of) or types.is_large_string(of):
        return "string"
    if types.is_binary(of) or types.is_large_binary(of) or types.is_fixed_size_binary(of):
        return "bytes"
    raise ConvertError(f"{what} is {of}, of which no input can be made: write its parts as "
                       "columns, or leave it out")


def _is_list(of: Any) -> bool:
    return bool(pyarrow.types.is_list(of) or pyarrow.types.is_large_list(of)
                or pyarrow.types.is_fixed_size_list(of))


def _columns(path: str, schema: Any, to: str) -> List[Column]:
    columns = []
    for field in schema:
        what, of = f"{path}: column {field.name!r}", field.type
        if isinstance(of, pyarrow.BaseExtensionType):
            of = of.storage_type
        if pyarrow.types.is_null(of):
            print(f"{what} has no values, and is left out", file=sys.stderr)
            continue
        is_list = _is_list(of)
        kind = _kind(what, of.value_type if is_list else of)
        if kind == "bytes" and to == "csv":
            raise ConvertError(f"{what} is {of}: --to tfrecord takes bytes, and csv does not")
        columns.append(Column(field.name, kind, is_list))
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise ConvertError(f"{path}: has several columns of one name")
    return columns


def _values(values: Any) -> Any:
    """An array of values as whole numbers, float numbers, text or bytes; NaN is none."""
    types = pyarrow.types
    if isinstance(values, pyarrow.ExtensionArray):
        values = values.storage
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    of = values.type
    if types.is_boolean(of):
        return values.cast(pyarrow.int8())
    if types.is_date(of):  # days
        return values.cast(pyarrow.date32()).cast(pyarrow.int32())
    if types.is_timestamp(of):
        values = values.cast(pyarrow.timestamp("us", of.tz), safe=False)
    elif types.is_duration(of):
        values = values.cast(pyarrow.duration("us"), safe=False)
    elif types.is_time(of):
        values = values.cast(pyarrow.time64("us"), safe=False)
    if types.is_temporal(values.type):
        return values.cast(pyarrow.int64())
    if types.is_float16(of):
        values = values.cast(pyarrow.float32())
    if types.is_floating(values.type):
        none = pyarrow.scalar(None, values.type)
        return compute.if_else(compute.is_nan(values), none, values)
    if types.is_decimal(of):
        return values.cast(pyarrow.string())
    return values


def _flat(path: str, column: Column, lists: Any) -> Any:
    """The values of all lists, one behind the other."""
    flat = _values(lists.flatten())
    if flat.null_count:
        raise ConvertError(f"{path}: column {column.name!r} has lists with a null or NaN in them, "
                           "which has no place in an input: fill them first")
    return flat


def _look(column: Column, values: Any, label: str) -> None:
    """Notes what a piece has of a column."""
    column.nulls |= values.null_count > 0
    if column.is_list:
        longest = compute.max(compute.list_value_length(values)).as_py()
        column.longest = max(column.longest, longest or 0)
    elif column.kind == "string":
        column.nulls |= bool(compute.any(compute.equal(values, "")).as_py())
        if column.name == label and len(column.words) <= _WORDS:
            column.words.update(dict.fromkeys(compute.unique(values).drop_null().to_pylist()))


# ---- writing


def _joined(path: str, column: Column, lists: Any) -> Any:
    """Each list as a text with separators."""
    if pyarrow.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pyarrow.list_(lists.type.value_type))
    texts = _flat(path, column, lists).cast(pyarrow.string())
    # flatten() leaves out what null lists and the rows before a slice have.
    ends = compute.cumulative_sum(compute.fill_null(compute.list_value_length(lists), 0))
    offsets = pyarrow.concat_arrays([pyarrow.array([0], ends.type), ends]).cast(pyarrow.int32())
    return compute.binary_join(pyarrow.ListArray.from_arrays(offsets, texts), column.separator)


def _write_csv(path: str, to: str, columns: List[Column], batches: Iterator[Any],
               label: str) -> None:
    from pyarrow import csv
    writer = None
    with contextlib.ExitStack() as stack:
        for batch in batches:
            arrays = []
            for column in columns:
                values = batch.column(column.name)
                if not column.is_list:
                    values = _values(values)
                _look(column, values, label)
                arrays.append(_joined(path, column, values) if column.is_list else values)
            piece = pyarrow.record_batch(arrays, names=[column.name for column in columns])
            if writer is None:
                writer = stack.enter_context(csv.CSVWriter(to, piece.schema))
            writer.write_batch(piece)
    if writer is None:
        raise ConvertError(f"{path}: has no rows")


def _write_records(path: str, to: str, columns: List[Column], batches: Iterator[Any],
                   label: str) -> None:
    kinds = {"id": "int64", "numeric": "float", "string": "bytes", "bytes": "bytes"}
    rows = 0
    with open(to, "wb") as file:
        writer = Writer(file, {column.name: kinds[column.kind] for column in columns})
        for batch in batches:
            rows += batch.num_rows
            writer_columns = [_python_values(path, column, batch.column(column.name), label)
                              for column in columns]
            for row in zip(*writer_columns):
                writer.write(row)
    if not rows:
        raise ConvertError(f"{path}: has no rows")


def _python_values(path: str, column: Column, values: Any, label: str) -> List[Any]:
    """For each row the values of a feature, or None."""
    changes: Dict[str, Callable[[Any], Any]] = {
        "id": int, "numeric": float, "string": str.encode, "bytes": bytes}
    change = changes[column.kind]
    if column.is_list:
        _look(column, values, label)
        flat = [change(value) for value in _flat(path, column, values).to_pylist()]
        rows, begin = [], 0
        for length in compute.fill_null(compute.list_value_length(values), 0).to_pylist():
            rows.append(flat[begin:begin + length])
            begin += length
        return rows
    values = _values(values)
    _look(column, values, label)
    return [None if value is None else [change(value)] for value in values.to_pylist()]


# ---- the job's entry


def _entry(columns: List[Column], label: str, to: str, files: List[str]) -> Dict[str, Any]:
    features: List[Any] = []
    data: Dict[str, Any] = {"format": to, "files": files, "features": features}
    inputs = [column for column in columns if column.name != label]
    several = any(column.is_list or column.kind != "numeric" for column in inputs)
    for column in columns:
        spec = (_csv_spec if to == "csv" else _record_spec)(column)
        if column.name == label:
            spec.pop("kind", None)
            spec.pop("default", None)
            if column.words:
                spec.update(kind="categorical", vocabulary=sorted(column.words))
            data["label"] = column.name if len(spec) == 1 else spec
            continue
        if several:
            alone = column.is_list or column.kind != "numeric"
            spec["input"] = column.name if alone else "numbers"
        features.append(column.name if len(spec) == 1 else spec)
    return data


def _csv_spec(column: Column) -> Dict[str, Any]:
    spec: Dict[str, Any] = {"column": column.name}
    if column.kind != "numeric":
        spec["kind"] = column.kind
    if column.is_list:
        spec.update(separator=column.separator, length=column.longest)
    elif column.nulls:
        spec["default"] = "" if column.kind == "string" else 0
    return spec


def _record_spec(column: Column) -> Dict[str, Any]:
    text = column.kind in ("string", "bytes")
    spec: Dict[str, Any] = {"name": column.name}
    if text:
        spec["dtype"] = "string"
    if column.is_list:
        spec.update(shape=[column.longest], pad="" if text else 0)
    elif column.nulls:
        spec["default"] = "" if text else 0
    return spec


def _label(columns: List[Column], given: Optional[str]) -> str:
    names = [column.name for column in columns]
    if given is not None:
        if given not in names:
            raise ConvertError(f"--label {given}: there are the columns {', '.join(names)}")
        return given
    guess = next((name for name in _LABELS if name in names), names[-1])
    print(f"the label is taken to be {guess!r}; --label names another", file=sys.stderr)
    return guess


# ---- the command


def _separators(paths: Sequence[str], columns: List[Column]) -> None:
    """Finds a separator for lists of texts that none of their values has."""
    texts = [column for column in columns if column.is_list and column.kind == "string"]
    for path in paths if texts else ():
        for batch in _batches(path, [column.name for column in texts])[1]:
            for column in texts:
                flat = _flat(path, column, batch.column(column.name))
                while compute.any(compute.match_substring(flat, column.separator)).as_py():
                    if column.separator == _SEPARATORS[-1]:
                        raise ConvertError(f"{path}: column {column.name!r} has lists of texts "
                                           "with both | and U+001F in them: --to tfrecord")
                    column.separator = _SEPARATORS[-1]


def _convert(path: str, to: str, out: str, columns: List[Column], label: str) -> List[Column]:
    """Converts a file, and returns what was seen of its columns."""
    part = f"{out}.part-{os.getpid()}"
    try:
        write = _write_csv if to == "csv" else _write_records
        write(path, part, columns, _batches(path)[1], label)
        os.replace(part, out)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(part)
    print(f"{path} -> {out}", file=sys.stderr)
    return columns


def convert(paths: Sequence[str], out: str, to: str = "csv", label: Optional[str] = None,
            jobs: int = 1) -> Dict[str, Any]:
    """Converts files into the folder `out`, and returns the job's {"train": ...}."""
    columns: List[Column] = []
    outs: Dict[str, str] = {}
    for path in paths:
        found = _columns(path, _batches(path)[0], to)
        if not found:
            raise ConvertError(f"{path}: has no columns")
        if columns and found != columns:
            raise ConvertError(f"{path}: its columns are not those of {paths[0]}")
        columns = found
        name = os.path.splitext(os.path.basename(path))[0]
        written = os.path.join(os.path.abspath(out), f"{name}.{to}")
        if written in outs:
            raise ConvertError(f"{path} and {outs[written]} would both become {written}")
        outs[written] = path
    chosen = _label(columns, label)
    if to == "csv":
        _separators(paths, columns)
    elif any(column.name == chosen and column.kind == "string" for column in columns):
        raise ConvertError(f"the label {chosen!r} is text, which TFRecords have numbers for: "
                           "--to csv, or --label names another")
    os.makedirs(out, exist_ok=True)
    works = [(path, to, written, columns, chosen) for written, path in outs.items()]
    if jobs == 1:
        seen = [_convert(*work) for work in works]
    else:
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            seen = list(pool.map(_convert, *zip(*works)))
    for others in seen:
        for column, other in zip(columns, others):
            column.seen(other)
    return {"train": _entry(columns, chosen, to, list(outs))}


def main(args: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser("python3 -m paracord.convert", description=(
        "Converts Parquet, ORC and Feather files to CSV or TFRecord, and prints the job's `data`."))
    parser.add_argument("files", nargs="+", metavar="IN", help="the files")
    parser.add_argument("out", metavar="OUT", help="the folder that gets one file for each")
    parser.add_argument("--to", choices=("csv", "tfrecord"), default="csv")
    parser.add_argument("--label", metavar="COLUMN", help="the column that is predicted")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at a time")
    given = parser.parse_args(args)
    try:
        data = convert(given.files, given.out, given.to, given.label, max(given.jobs, 1))
    except (ConvertError, OSError, pyarrow.ArrowException) as error:
        print(f"paracord.convert: {error}", file=sys.stderr)
        return 2
    print(json.dumps(data, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
