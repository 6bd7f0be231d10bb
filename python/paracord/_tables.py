"""Tables of which a program has the rows of a batch alone: numbers in the place of ids, and a test
that a program computes by these what it would by ids and whole tables."""

from __future__ import annotations

import sys
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy

from paracord._arguments import ProgramError
from paracord._program import Batch, Program

# What is computed of values and inputs: results, and of a table by its variable the gradient.
Computed = Tuple[Sequence[numpy.ndarray], Mapping[int, numpy.ndarray]]
Compute = Callable[[List[numpy.ndarray], Dict[str, numpy.ndarray]], Computed]
_MORE_ROWS = 3
_TOLERANCE = 1e-3


def number_ids(program: Program, inputs: Dict[str, numpy.ndarray]) -> List[Sequence[int]]:
    """Puts local numbers in the place of ids, as a worker does, and returns the shapes of the
    variables with the rows that the batch reads."""
    shapes: List[Sequence[int]] = []
    rows: Dict[str, int] = {}  # by the first column
    for variable in program.variables:
        if not variable.table:
            shapes.append(variable.shape)
            continue
        columns = sorted(variable.table.columns)
        for name in columns:
            if name not in inputs:
                raise ProgramError(f"{variable.name} reads ids of an input {name!r}, which the "
                                   "data lack")
        if columns[0] not in rows:
            ids = numpy.unique(numpy.concatenate([inputs[name].ravel() for name in columns]))
            first = 0 if len(ids) and ids[0] == 0 else 1
            for name in columns:
                inputs[name] = numpy.searchsorted(ids, inputs[name]) + first
            rows[columns[0]] = len(ids) + first
        shapes.append((rows[columns[0]], *variable.shape[1:]))
    return shapes


class _Numbering:
    """Gives the rows of each table other numbers, but row 0, and puts some that no batch reads
    among them."""

    def __init__(self, program: Program, values: Sequence[numpy.ndarray],
                 inputs: Mapping[str, numpy.ndarray]) -> None:
        self.values, self.inputs = list(values), dict(inputs)
        self.other_values, self.other_inputs = list(values), dict(inputs)
        self.places: Dict[int, numpy.ndarray] = {}  # where each row of a table went to
        random = numpy.random.default_rng(0)
        for v, variable in enumerate(program.variables):
            if not variable.table:
                continue
            rows = len(values[v])
            # Where there is no room for more rows, the last one is no longer read.
            room = rows if program.all_rows else rows + _MORE_ROWS
            last = rows - 1 if program.all_rows and rows > 2 else rows
            places = numpy.arange(rows)
            places[1:] = room - places[1:]
            for name in variable.table.columns:
                numbers = numpy.where(inputs[name] == last, 1, inputs[name])
                self.inputs[name] = numbers.astype(inputs[name].dtype)
                self.other_inputs[name] = places[self.inputs[name]].astype(inputs[name].dtype)
            others = random.uniform(0.5, 1, (room, *values[v].shape[1:])).astype(values[v].dtype)
            others[places[:last]] = values[v][:last]
            self.other_values[v], self.places[v] = others, places[:last]


def _differs(one: Computed, other: Computed, places: Mapping[int, numpy.ndarray]) -> bool:
    """Whether it is something else, where the row r of a table v is places[v][r] in the other."""
    results, gradients = one
    numbers = [numpy.abs(array).max() for array in results if array.size]
    least = 1e-2 * _TOLERANCE * max([1e-3, *(n for n in numbers if numpy.isfinite(n))])
    for found, right in zip(other[0], results):
        if not numpy.allclose(found, right, rtol=_TOLERANCE, atol=least, equal_nan=True):
            return True
    for v, gradient in gradients.items():
        found, there = other[1][v], places[v]
        if not numpy.allclose(found[there], gradient[:len(there)], rtol=_TOLERANCE, atol=least,
                              equal_nan=True):
            return True
        if numpy.delete(found, there, axis=0).any():  # of rows that the batch does not read
            return True
    return False


def check_rows(program: Program, values: Sequence[numpy.ndarray],
               inputs: Mapping[str, numpy.ndarray], compute: Compute) -> None:
    """Refuses tables where a program computes something else when their rows have other numbers,
    or when there are others besides: it then would by whole tables and ids, too."""
    tables = [variable.name for variable in program.variables if variable.table]
    numbering = _Numbering(program, values, inputs)
    one = compute(numbering.values, numbering.inputs)
    why: Optional[Exception] = None
    try:
        other = compute(numbering.other_values, numbering.other_inputs)
        if not _differs(one, other, numbering.places):
            return
    except ProgramError:
        raise
    except Exception as error:  # of the user's code, which the batch as it is does not raise
        why = error
    again = compute(numbering.values, numbering.inputs)
    if _differs(one, again, {v: numpy.arange(len(each)) for v, each in one[1].items()}):
        print(f"paracord: nobody can tell whether the tables {tables} are read by rows alone: a "
              "batch computed twice gives other numbers", file=sys.stderr)
        return
    raise ProgramError(
        f"the model computes something else when the tables {tables} have the rows of a batch, and "
        "their inputs the rows' numbers: it uses such a table as a whole (a tied weight, a "
        "penalty), or an id for more than to look up a row of it (as a number, or in another "
        "Embedding)" + (f": {type(why).__name__}: {why}" if why else ""))


def check_batch(program: Program, values: Sequence[numpy.ndarray], batch: Batch) -> None:
    """Does so with a batch, by its loss and gradients."""
    def compute(values: List[numpy.ndarray], inputs: Dict[str, numpy.ndarray]) -> Computed:
        gradients = [numpy.zeros(value.shape, numpy.float32) if variable.has_gradient else None
                     for variable, value in zip(program.variables, values)]
        columns = Batch(batch.examples, inputs, batch.targets, batch.weights, batch.key)
        loss = program.gradients(values, columns, gradients, lambda v: None)
        found = {v: gradient for v, gradient in enumerate(gradients) if gradient is not None}
        tables = {v: found.pop(v) for v, each in enumerate(program.variables) if each.table}
        return [numpy.asarray(loss), *found.values()], tables

    check_rows(program, values, batch.inputs, compute)
