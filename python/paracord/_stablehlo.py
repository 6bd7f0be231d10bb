"""Program files (program/PROGRAM_FILE.md): modules of StableHLO that JAX writes. JAX is imported
here, by the modules that export with it."""

from __future__ import annotations

import base64
import json
import math
import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import jax
import jax.export
import jax.interpreters.mlir
import numpy
from jax.extend.mlir import ir, passmanager
from jax.extend.mlir.dialects import stablehlo

from paracord._arguments import Dtypes, ProgramError
from paracord._program import Output, Variable

_TYPES = ("float32", "int32", "int64")
Sizes = Union[int, Sequence[int]]


class Column:
    """A column that the modules take; `kind` is input, target or weight."""

    def __init__(self, kind: str, name: str, shape: Sequence[int], dtype: str = "float32") -> None:
        if dtype not in _TYPES:
            raise ProgramError(f"{kind} {name!r} is {dtype}, and a column has one of {_TYPES}")
        if dtype == "int64" and jax.dtypes.canonicalize_dtype("int64") != "int64":
            raise ProgramError(
                f"{kind} {name!r} is int64, which JAX cuts to int32: set "
                'jax.config.update("jax_enable_x64", True) first')
        if any(size is None for size in shape):
            raise ProgramError(f"{kind} {name!r} has the shape {tuple(shape)}: give it sizes")
        self.kind, self.name, self.dtype = kind, name, dtype
        self.shape = tuple(int(size) for size in shape)

    def to_json(self) -> Dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    def of(self, batch: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((batch, *self.shape), numpy.dtype(self.dtype))


def check_dtypes(dtypes: Dtypes, columns: Sequence[Column]) -> None:
    """Refuses types of columns that the file does not have."""
    there = [(column.kind + "s", column.name) for column in columns]
    lost = [f"{name!r} of {kind}" for kind, types in dtypes.items() for name in types
            if (kind, name) not in there]
    if lost:
        raise ProgramError(
            f"dtypes names {', '.join(lost)}, which is no column: there are "
            + ", ".join(f"{name!r} of {kind}" for kind, name in there))


def sizes_of(batch: Sizes, records: Optional[int]) -> List[int]:
    """The sizes of the batches of an epoch: `batch`, and the last one's if that is smaller."""
    sizes = [batch] if isinstance(batch, int) else list(batch)
    if records is not None:
        sizes = [size for whole in sizes for size in (min(whole, records), records % whole) if size]
    return sorted(set(sizes), reverse=True)


def check_replicas(replicas: int, variables: Sequence[Variable]) -> None:
    """Refuses a number of replicas that no worker could add up."""
    if not 1 <= replicas <= 256 or replicas & (replicas - 1):
        raise ProgramError(f"replicas is {replicas}, and must be a power of two, at most 256")
    tables = [variable.name for variable in variables if variable.table is not None]
    if replicas > 1 and tables:
        raise ProgramError(f"replicas is {replicas}, and {tables[0]} is a table: each replica "
                           "reads other rows of it, which a module cannot add up")


def _add_up(module: Any, first: int, replicas: int) -> None:
    """Makes each result of a module, from number `first` on, its sum over the replicas."""
    main = next(op for op in module.body.operations
                if ir.StringAttr(op.attributes["sym_name"]).value == "main")
    leave = list(main.regions[0].blocks[0].operations)[-1]
    group = ir.DenseElementsAttr.get(numpy.arange(replicas, dtype=numpy.int64).reshape(1, -1))
    with ir.InsertionPoint(leave), ir.Location.unknown():
        scalar = ir.RankedTensorType.get([], ir.F32Type.get())
        for number in range(first, len(leave.operands)):
            value = leave.operands[number]
            total = stablehlo.AllReduceOp([value.type], [value], replica_groups=group)
            with ir.InsertionPoint(total.regions[0].blocks.append(scalar, scalar)) as inside:
                stablehlo.ReturnOp([stablehlo.AddOp(*inside.block.arguments).result])
            leave.operands[number] = total.results[0]
        module.operation.attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(32), replicas)


def _lower(function: Callable[..., Any], arguments: Sequence[Any],
           replicas: int) -> Tuple[bytes, str, Any]:
    """The portable artefact of a function, without names of files, its version and its results. Of
    several replicas each has the first result for itself, and the sums of the others."""
    exported = jax.export.export(
        jax.jit(function, keep_unused=True), platforms=("cpu",))(*arguments)
    found = re.search(rb"StableHLO_v([0-9.]+)\x00", exported.mlir_module_serialized[:64])
    if found is None:
        raise ProgramError("this version of JAX writes modules of an unknown form")
    version = found[1].decode()
    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(exported.mlir_module())
        if replicas > 1:
            _add_up(module, 1, replicas)
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        code = stablehlo.serialize_portable_artifact(module, version)
    return code, version, exported.out_avals


def rows_of(variable: Variable, columns: Sequence[Column], batch: int) -> Optional[int]:
    """The rows of a table that a module of this batch has room for: those of all the ids, and row
    0; None of another variable."""
    if variable.table is None:
        return None
    ids = 0
    for name in variable.table.columns:
        found = [column for column in columns if (column.kind, column.name) == ("input", name)]
        if not found:
            raise ProgramError(f"table {variable.name} reads the input {name!r}, which is none of "
                               f"{[column.name for column in columns if column.kind == 'input']}")
        ids += batch * math.prod(found[0].shape)
    most = variable.table.capacity
    return 1 + (ids if most is None else min(ids, most))


class Writer:
    """Puts a program file together. The arguments of a step's function are values, columns and a
    key of two uint32, its results the loss and what each variable with a gradient is pushed; those
    of a prediction are values and inputs, its results the outputs."""

    def __init__(self, variables: Sequence[Variable], columns: Sequence[Column],
                 outputs: Sequence[Output]) -> None:
        self._variables, self._columns, self._outputs = variables, columns, outputs
        self._modules: List[Mapping[str, Any]] = []
        self._version = ""

    def add_steps(self, batch: Sizes, records: Optional[int], replicas: int,
                  function: Callable[..., Any]) -> None:
        """Adds a step for each size of the epoch's batches, and one more for each size of a whole
        batch, of which several replicas compute one each."""
        check_replicas(replicas, self._variables)
        for size in sizes_of(batch, records):
            self._add_step(size, function, 1)
        whole = {size if records is None else min(size, records) for size in sizes_of(batch, None)}
        for size in sorted(whole, reverse=True) if replicas > 1 else ():
            self._add_step(size, function, replicas)

    def _add_step(self, batch: int, function: Callable[..., Any], replicas: int) -> None:
        key = jax.ShapeDtypeStruct((2,), numpy.uint32)
        results = [{"kind": "loss"}] + [
            {"kind": "gradient", "name": v.name} for v in self._variables if v.has_gradient]
        self._add("step", batch, function, self._columns, results,
                  [{"kind": "key"}], [key], replicas)

    def add_predict(self, batch: int, function: Callable[..., Any]) -> None:
        inputs = [column for column in self._columns if column.kind == "input"]
        results = [{"kind": "output", "name": output.name} for output in self._outputs]
        self._add("predict", batch, function, inputs, results, [], [])

    def _add(self, kind: str, batch: int, function: Callable[..., Any], columns: Sequence[Column],
             results: Sequence[Mapping[str, Any]], last: Sequence[Mapping[str, Any]],
             last_shapes: Sequence[Any], replicas: int = 1) -> None:
        rows = {v.name: rows_of(v, self._columns, batch) for v in self._variables}
        whole = {v.name: v.shape_of(rows[v.name]) for v in self._variables}
        shapes = [jax.ShapeDtypeStruct(whole[v.name], numpy.float32) for v in self._variables]
        shapes += [column.of(batch) for column in columns]
        code, self._version, avals = _lower(function, [*shapes, *last_shapes], replicas)
        self._check(kind, batch, results, avals, whole)
        names: List[Dict[str, Any]] = [
            {"kind": "variable", "name": v.name,
             **({} if rows[v.name] is None else {"rows": rows[v.name]})} for v in self._variables]
        names += [{"kind": column.kind, "name": column.name} for column in columns]
        self._modules.append({
            "kind": kind, "batch": batch, **({"replicas": replicas} if replicas > 1 else {}),
            "arguments": [*names, *last], "results": list(results),
            "code": base64.b64encode(code).decode()})

    def _check(self, kind: str, batch: int, results: Sequence[Mapping[str, Any]],
               avals: Sequence[Any], shapes: Mapping[str, Tuple[int, ...]]) -> None:
        if len(avals) != len(results):
            raise ProgramError(f"the {kind} has {len(avals)} results, {len(results)} are declared")
        outputs = {o.name: (batch, *o.shape) for o in self._outputs}
        for result, aval in zip(results, avals):
            name = result.get("name", "the loss")
            wanted = {"loss": (), "gradient": shapes.get(name), "output": outputs.get(name)}
            if aval.shape != wanted[result["kind"]] or aval.dtype != numpy.float32:
                raise ProgramError(
                    f"{result['kind']} {name!r} is {aval.dtype} of shape {aval.shape}, and must be "
                    f"float32 of shape {wanted[result['kind']]}")

    def write(self, path: str, made_by: str) -> None:
        """Writes it whole, or leaves what was there."""
        def of(kind: str) -> List[Mapping[str, Any]]:
            return [column.to_json() for column in self._columns if column.kind == kind]

        document = {
            "format": 1, "made_by": f"{made_by} on JAX {jax.__version__}",
            "stablehlo": self._version, "variables": [v.to_json() for v in self._variables],
            "inputs": of("input"), "targets": of("target"), "weights": of("weight"),
            "outputs": [output.to_json() for output in self._outputs], "modules": self._modules}
        beside = f"{path}.{os.getpid()}.tmp"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.replace(beside, path)
