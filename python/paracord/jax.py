"""Programs of JAX functions. This module, keras.py and _stablehlo.py import JAX, no others."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Union

import jax
import numpy

from paracord._arguments import (
    Dtypes, Initializer, ProgramError, check_named, checked_dtypes, checked_initial, initial_of,
    nearest, only_size)
from paracord._program import (
    Batch, Output, Program, Table, Variable, as_list, as_table, check_predict, loss_of,
    store_gradient, unknown_initial)
from paracord._tables import check_batch

if TYPE_CHECKING:  # exports alone need what it imports, which not every JAX has
    from paracord._stablehlo import Column, Sizes


def _name(path: Sequence[Any]) -> str:
    """"dense/kernel" for params["dense"]["kernel"], a list's index as a number."""
    parts = []
    for key in path:
        for attribute in ("key", "name", "idx"):
            if hasattr(key, attribute):
                parts.append(str(getattr(key, attribute)))
                break
    return "/".join(parts)


class _Function(Program):
    def __init__(
        self,
        function: Callable[..., Any],
        params: Any,
        batch: Optional[int],
        predict: Optional[Callable[..., Any]],
        outputs: Sequence[Output],
        initial: Mapping[str, Initializer],
        dtypes: Dtypes,
        tables: Mapping[str, Union[str, Table]],
    ) -> None:
        check_predict(predict, outputs)
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(params)
        initial = checked_initial(initial)
        unknown: List[str] = []
        self.variables = [
            self._variable(_name(path), leaf, initial, unknown) for path, leaf in leaves]
        if unknown:
            raise unknown_initial(unknown, "program(params", "params")
        names = [variable.name for variable in self.variables]
        check_named(initial, names)
        for name, table in tables.items():
            if name not in names:
                raise ProgramError(f"there is no parameter {name!r} to be a table; "
                                   + nearest(name, names))
            self.variables[names.index(name)].table = as_table(name, table)
        self.all_rows = True  # else each number of rows would be compiled
        self.outputs = list(outputs)
        self.batches = only_size(batch)
        self.dtypes = checked_dtypes(dtypes)
        self._function, self._predictor = function, predict
        self._keyed = "key" in inspect.signature(function).parameters
        self._step = jax.jit(jax.value_and_grad(function))
        self._loss = jax.jit(function)
        self._predict = None if predict is None else jax.jit(predict)

    @staticmethod
    def _variable(name: str, leaf: Any, initial: Mapping[str, Initializer],
                  unknown: List[str]) -> Variable:
        array = numpy.asarray(leaf)
        if array.dtype != numpy.float32:
            raise ProgramError(f"parameter {name} of shape {array.shape} is {array.dtype}, and "
                               'only float32 is trained: give it as .astype("float32")')
        known = initial_of(name, initial)
        if known is None and array.size and (array == array.flat[0]).all():
            known = {"name": "constant", "value": float(array.flat[0])}
        if known is None:
            unknown.append(name)
            known = "zeros"
        return Variable(name, array.shape, known)

    def _params(self, values: Sequence[numpy.ndarray]) -> Any:
        return jax.tree_util.tree_unflatten(self._tree, values)

    def _columns(self, columns: Sequence[numpy.ndarray]) -> Sequence[numpy.ndarray]:
        """JAX would cut the upper half of an int64 off without a word."""
        for column in columns:
            if (column.dtype == numpy.int64 and jax.dtypes.canonicalize_dtype("int64") != "int64"
                    and column.size and numpy.abs(column).max() >= 2**31):
                raise ProgramError(
                    f"the number {numpy.abs(column).max()} does not fit JAX's int32: set "
                    'jax.config.update("jax_enable_x64", True) before the program is made')
        return columns

    def _key(self, key: Optional[int]) -> Mapping[str, Any]:
        if not self._keyed:
            return {}
        if key is None:
            return {"key": None}
        # jax.random.key would take the lower half alone where 64-bit numbers are off.
        halves = jax.numpy.array([key >> 32, key % 2**32], jax.numpy.uint32)
        return {"key": jax.random.wrap_key_data(halves, impl="threefry2x32")}

    def gradients(
        self,
        values: Sequence[numpy.ndarray],
        batch: Batch,
        gradients: Sequence[Optional[numpy.ndarray]],
        done: Callable[[int], None],
    ) -> float:
        columns = self._columns(batch.columns)
        loss, found = self._step(self._params(values), *columns, **self._key(batch.key))
        for variable, gradient, to in zip(self.variables, jax.tree_util.tree_leaves(found),
                                          gradients):
            assert to is not None
            store_gradient(variable, gradient, to)
        return float(loss)

    def evaluate(self, values: Sequence[numpy.ndarray], batch: Batch) -> float:
        columns = self._columns(batch.columns)
        return float(self._loss(self._params(values), *columns, **self._key(None)))

    def export(self, path: str, columns: Sequence[Column], batch: Sizes, records: Optional[int],
               replicas: int) -> None:
        from paracord._stablehlo import Writer, sizes_of

        count = len(self.variables)

        def step(*flat: Any) -> Any:
            key = {}
            if self._keyed:
                halves = jax.numpy.stack([flat[-1][1], flat[-1][0]])
                key["key"] = jax.random.wrap_key_data(halves, impl="threefry2x32")
            loss, found = jax.value_and_grad(self._function)(
                self._params(flat[:count]), *flat[count:-1], **key)
            return (loss, *jax.tree_util.tree_leaves(found))

        def infer(*flat: Any) -> Any:
            assert self._predictor is not None
            result = self._predictor(self._params(flat[:count]), *flat[count:])
            return tuple(as_list(result))

        writer = Writer(self.variables, columns, self.outputs)
        writer.add_steps(batch, records, replicas, step)
        if self._predictor is not None:
            writer.add_predict(sizes_of(batch, records)[0], infer)
        writer.write(path, "paracord.jax")

    def check_tables(self, columns: Sequence[Column], size: int) -> None:
        """Does what `serve` does with its first batch (_tables.py), of any numbers."""
        from paracord._stablehlo import rows_of

        random = numpy.random.default_rng(0)
        rows = [rows_of(variable, columns, size) for variable in self.variables]
        values = [random.uniform(-0.5, 0.5, v.shape_of(n)).astype(numpy.float32)
                  for v, n in zip(self.variables, rows)]
        room = {name: n for v, n in zip(self.variables, rows) if v.table is not None
                for name in v.table.columns}
        given = {kind: {c.name: numpy.ones((size, *c.shape), c.dtype) for c in columns
                        if c.kind == kind} for kind in ("input", "target", "weight")}
        for name, n in room.items():
            column = given["input"][name]
            column[...] = random.integers(1, n, column.shape)
        check_batch(self, values, Batch(size, given["input"], given["target"], given["weight"]))

    def predict(self, values: Sequence[numpy.ndarray], batch: Batch) -> List[Any]:
        assert self._predict is not None
        inputs = self._columns(list(batch.inputs.values()))
        result = self._predict(self._params(values), *inputs)
        return as_list(result)


def program(
    params: Any,
    *,
    batch: Optional[int] = None,
    predict: Optional[Callable[..., Any]] = None,
    outputs: Sequence[Output] = (),
    initial: Optional[Mapping[str, Initializer]] = None,
    dtypes: Optional[Dtypes] = None,
    tables: Optional[Mapping[str, Union[str, Table]]] = None,
) -> Callable[[Callable[..., Any]], Program]:
    """Makes a program of a function (params, *columns) -> mean loss, which is compiled.

    `params` is a tree of float32 arrays, by whose paths the variables are named ("dense/kernel").
    Those that are all one number start as they are; `initial` says what others are drawn from, by
    their name or a pattern ("*/kernel"; "initial_weights": the job's file has the values). The
    columns are inputs, targets and weights, examples first, float32 unless `dtypes` says int64. A
    function with a parameter `key` is given a random key that the batch decides, and None in an
    evaluation. `predict` is (params, *inputs) -> array, or a list of one for each output. Each size
    of batch is compiled once; `batch` is the only one that it can compute, if there is one.
    `tables`, {"user": "user_id"} or {"user": paracord.Table("liked", "shown")}, says of which
    parameters a batch is given the rows alone that the ids in these inputs name.
    """

    def decorate(function: Callable[..., Any]) -> Program:
        return _Function(function, params, batch, predict, outputs, initial or {}, dtypes or {},
                         tables or {})

    return decorate


def export(
    program: Program,
    path: str,
    *,
    inputs: Mapping[str, Sequence[int]],
    targets: Mapping[str, Sequence[int]],
    weights: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Sizes = 64,
    records: Optional[int] = None,
    replicas: int = 1,
) -> None:
    """Writes a program file of what `program` made: a job's {"program": "stablehlo", "file": path},
    which a PJRT plug-in computes without Python.

    `inputs`, `targets` and `weights` are the shapes of an example's columns by name ("" where there
    is one), in the order of the function's arguments; their types are those of the program's
    `dtypes`, which may also say int32. It has a step for batches of `batch` examples, or of each
    of these numbers; with `records`, the number of the job's training records, also one for the
    smaller batch at an epoch's end. Of the program's tables it has room for as many rows as a batch
    has ids, or for their capacity; the inputs with these ids are named as in the data, and have the
    number of each id among the rows as int32. Of `replicas` devices of a worker each computes a
    batch, and they add up the gradients themselves.
    """
    if not isinstance(program, _Function):
        raise ProgramError("paracord.jax.export takes what paracord.jax.program makes")
    from paracord._stablehlo import Column, check_dtypes, sizes_of

    ids = {name for v in program.variables if v.table for name in v.table.columns}
    columns = []
    for kind, shapes in (("input", inputs), ("target", targets), ("weight", weights or {})):
        types = program.dtypes.get(kind + "s", {})
        # The numbers of a table's rows are small, whatever its ids are.
        columns += [Column(kind, name, shape, "int32" if kind == "input" and name in ids
                           else types.get(name, "float32"))
                    for name, shape in shapes.items()]
    check_dtypes(program.dtypes, columns)
    if ids:
        program.check_tables(columns, sizes_of(batch, records)[0])
    program.export(path, columns, batch, records, replicas)
