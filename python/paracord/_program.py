"""What a program is: variables, and gradients of a batch by them."""

from __future__ import annotations

import collections
import dataclasses
import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy

from paracord._arguments import (
    Dtypes, Initializer, ProgramError, check_initializer, shape_of)

_HELLO_BYTES = 64 << 10  # of variables in a packet, well below what a socket takes


class Table:
    """Says that a variable is a table whose rows are named by ids: `columns` are the inputs of the
    job's data that have them.

    A worker then holds and moves the rows alone that its batch reads. The program is given these
    rows, and in the columns the number of each id among them, as int64. Row 0 is that of id 0 (or
    zeros, where a batch lacks it). `capacity` is the most different ids of a batch, if it is less
    than the columns have numbers. What else a table is, growing or not, the job's `tables` say.
    """

    def __init__(self, *columns: str, capacity: Optional[int] = None) -> None:
        if not columns or not all(isinstance(name, str) for name in columns):
            raise ProgramError("a table needs the names of the inputs that have its ids")
        self.columns = columns
        self.capacity = capacity

    def to_json(self) -> Dict[str, Any]:
        table: Dict[str, Any] = {"columns": list(self.columns)}
        if self.capacity is not None:
            table["capacity"] = int(self.capacity)
        return table


def as_table(name: str, table: Any) -> Optional[Table]:
    """What somebody said of a table: the name of its input will do."""
    if isinstance(table, str):
        return Table(table)
    if table is not None and not isinstance(table, Table):
        raise ProgramError(f"{name} has the table {table!r}: name the input that has its ids, or "
                           'several, as in paracord.Table("liked", "shown")')
    return table


@dataclasses.dataclass
class Variable:
    """A variable of the model, in float32.

    `initializer` is a name of Keras ("zeros", "glorot_uniform") or a dict of the name and its
    numbers, {"name": "random_uniform", "minval": -0.1, "maxval": 0.1}. A variable with a
    `moving_average` f is none that an optimizer updates: its "gradient" is a new observation o, and
    it becomes f * value + (1 - f) * o. One that is `assigned` becomes o: of several workers, what
    the last one has pushed. Of a `table` a batch is given the rows that it reads. The `constraint`
    "non_neg" sets negative values to 0 after each update.
    """

    name: str
    shape: Sequence[int]
    initializer: Initializer = "zeros"
    trainable: bool = True
    moving_average: float = 0.0
    assigned: bool = False
    table: Optional[Table] = None
    constraint: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ProgramError(f"a variable has the name {self.name!r}: give it a text")
        self.shape = shape_of(f"variable {self.name}", self.shape)
        check_initializer(f"variable {self.name}", self.initializer)
        self.table = as_table(self.name, self.table)
        if self.table and (not self.trainable or self.assigned or self.moving_average):
            raise ProgramError(f"variable {self.name} is a table, and not trained")
        if self.assigned and self.moving_average:
            raise ProgramError(f"variable {self.name} is assigned, and a moving average")
        if self.assigned or self.moving_average:
            self.trainable = False

    def shape_of(self, rows: Optional[int]) -> Tuple[int, ...]:
        """With as many rows, if it is a table; None: its own."""
        return tuple(self.shape) if rows is None else (rows, *self.shape[1:])

    @property
    def has_gradient(self) -> bool:
        return self.trainable or self.assigned or self.moving_average > 0

    def to_json(self) -> Dict[str, Any]:
        initializer = self.initializer
        if not isinstance(initializer, str):
            initializer = dict(initializer)
        variable = {
            "name": self.name,
            "shape": list(self.shape),
            "initializer": initializer,
            "trainable": self.trainable,
            "moving_average": self.moving_average,
            "assigned": self.assigned,
        }
        if self.table:
            variable["table"] = self.table.to_json()
        if self.constraint:
            variable["constraint"] = self.constraint
        return variable


@dataclasses.dataclass
class Output:
    """Something that `predict` returns; `shape` is that of one example."""

    shape: Sequence[int]
    name: str = ""

    def __post_init__(self) -> None:
        self.shape = shape_of(f"output {self.name!r}" if self.name else "an output", self.shape)

    def to_json(self) -> Dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape)}


@dataclasses.dataclass
class Batch:
    """The examples of a batch: columns of the job's data, examples first, float32 unless the
    program's `dtypes` say int64.

    They are views of memory that the next batch is written to: copy what is to be kept.
    """

    examples: int
    inputs: Dict[str, numpy.ndarray]
    targets: Dict[str, numpy.ndarray]
    weights: Dict[str, numpy.ndarray]
    key: int = 0  # the same for the same batch, whoever computes it: the seed of its randomness

    @property
    def columns(self) -> Tuple[numpy.ndarray, ...]:
        """Inputs, targets and weights in the order of the job's data."""
        return (*self.inputs.values(), *self.targets.values(), *self.weights.values())


    def describe(self) -> str:
        """Its columns, for an error."""
        return ", ".join(
            f"{kind} {name!r} {column.dtype} {column.shape}" for kind, columns in (
                ("input", self.inputs), ("target", self.targets), ("weight", self.weights))
            for name, column in columns.items())


class Program:
    """The base of every program. A subclass sets `variables` and has `gradients`.

    `batches`: the numbers of examples that it can compute; empty: any. `dtypes`: the columns that
    it wants as int64, in which ids arrive exactly that float32 lacks (those beyond 2^24).
    `all_rows`: whether arrays of tables have as many rows for every batch, for compilers that want
    that; those that the batch does not read have any value.
    """

    variables: List[Variable] = []
    outputs: List[Output] = []
    batches: List[int] = []
    dtypes: Dtypes = {}
    all_rows: bool = False

    def attach(self, values: Sequence[numpy.ndarray]) -> None:
        """Called once, with a view of each variable's values, which every batch renews. Of a table
        it has all rows that there is room for; `gradients` is given those of the batch."""

    def gradients(
        self,
        values: Sequence[numpy.ndarray],
        batch: Batch,
        gradients: Sequence[Optional[numpy.ndarray]],
        done: Callable[[int], None],
    ) -> float:
        """Returns the mean loss and writes its gradient by each variable (None: it has none).

        It may call done(v) as soon as gradients[v] is complete and stays as it is: the worker
        sends it on while the others are computed.
        """
        raise NotImplementedError

    def predict(self, values: Sequence[numpy.ndarray], batch: Batch) -> Sequence[Any]:
        """Returns an array for each of `outputs`, examples first, as at inference."""
        raise NotImplementedError

    def evaluate(self, values: Sequence[numpy.ndarray], batch: Batch) -> float:
        """Returns the mean loss as at inference. A program without it has the job name a `loss`,
        which is that of what it predicts."""
        raise NotImplementedError

    def evaluates(self) -> bool:
        """Whether `evaluate` is asked for: an evaluation has batches of any size."""
        return type(self).evaluate is not Program.evaluate and not self.batches

    def hello(self) -> List[Dict[str, Any]]:
        """The packets that say what it is (proto/PROGRAM.md)."""
        names = [variable.name for variable in self.variables]
        if not names:
            raise ProgramError("the program has no variables")
        twice = [name for name, count in collections.Counter(names).items() if count > 1]
        if twice:
            raise ProgramError(f"the program has two variables {twice[0]!r}")
        for kind, columns in self.dtypes.items():
            for column, dtype in columns.items():
                if dtype == "int32":
                    raise ProgramError(f"dtypes says int32 of {column!r} of {kind}, which exports "
                                       "alone have: say int64")
        packets: List[Dict[str, Any]] = []
        room = 0
        for variable in self.variables:
            declared = variable.to_json()
            size = len(json.dumps(declared))
            if size > room:
                packets.append({"hello": 1, "more": True, "variables": []})
                room = max(size, _HELLO_BYTES)
            packets[-1]["variables"].append(declared)
            room -= size
        packets[-1].update({
            "more": False,
            "batches": list(self.batches),
            "dtypes": {kind: dict(columns) for kind, columns in self.dtypes.items()},
            "outputs": [output.to_json() for output in self.outputs],
            "metrics": ["loss"] if self.evaluates() else [],
        })
        return packets


def store_gradient(variable: Variable, gradient: Any, to: numpy.ndarray) -> None:
    """Copies a gradient to where the worker reads it; an error names the variable."""
    array = numpy.asarray(gradient)
    if array.shape != to.shape:
        raise ProgramError(
            f"the gradient of {variable.name} has the shape {array.shape}, "
            f"the variable {to.shape}")
    to[...] = array


def unknown_initial(names: Sequence[str], call: str, values: str,
                    of: Optional[Mapping[str, str]] = None) -> ProgramError:
    """The error about variables that nobody knows how to draw; `of` says of what they are, `call`
    is what made the program, and `values` the arrays that they have there."""
    some = ", ".join(f"{name} of {of[name]}" if of else name for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ProgramError(
        f"nobody can tell what {some}{more} is drawn from: say it, {call}, "
        f'initial={{"{names[0]}": {{"name": "random_normal", "stddev": 0.02}}}}); or start from '
        f'the values that are there: initial={{"{names[0]}": "initial_weights"}}, write them once '
        f'by paracord.save("start.safetensors", {values}), and name that file in the job\'s '
        '"initial_weights"')


def check_predict(predict: Any, outputs: Sequence[Output]) -> None:
    if bool(predict) != bool(outputs):
        raise ProgramError("give both `predict` and the `outputs` that it returns, or neither")


def loss_of(loss: Any) -> float:
    array = numpy.asarray(loss)
    if array.size != 1 or array.dtype.kind not in "fiub":
        what = f"an array of shape {array.shape}" if array.size != 1 else repr(loss)
        raise ProgramError(f"the loss is {what}, and must be a number, the mean over the batch")
    return float(array.reshape(()))


def as_list(results: Any) -> List[Any]:
    """What a prediction returns: a list or tuple of one array for each output, or one array."""
    if isinstance(results, Mapping):
        raise ProgramError("a prediction is a dict, and must be a list or tuple of one array for "
                           "each output, in the order of `outputs`")
    return list(results) if isinstance(results, (list, tuple)) else [results]


def store_outputs(outputs: Sequence[Output], results: Sequence[Any], examples: int,
                  places: Sequence[numpy.ndarray]) -> None:
    """Copies the predictions of `examples` examples to where the worker reads them."""
    if len(results) != len(outputs):
        names = ", ".join(repr(output.name) for output in outputs)
        raise ProgramError(f"predict returns {len(results)} arrays, and {len(outputs)} outputs are "
                           f"declared ({names})")
    for output, result, to in zip(outputs, results, places):
        array = numpy.asarray(result)
        name = f"output {output.name!r}" if output.name else "the output"
        if array.shape != (examples, *output.shape):
            raise ProgramError(
                f"{name} has the shape {array.shape} for {examples} examples, "
                f"and is declared as {(examples, *output.shape)}")
        to[:examples] = array
