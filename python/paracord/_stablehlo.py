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


def _lower(function: Callable[..., Any], arguments: Sequence[Any]) -> Tuple[bytes, str, Any]:
    """The portable artefact of a function, without names of files, its version and its results."""
    exported = jax.export.export(
        jax.jit(function, keep_unused=True), platforms=("cpu",))(*arguments)
    found = re.search(rb"StableHLO_v([0-9.]+)\x00", exported.mlir_module_serialized[:64])
    if found is None:
        raise ProgramError("this version of JAX writes modules of an unknown form")
    version = found[1].decode()
    with jax.interpreters.mlir.make_ir_context():
        module = ir.Module.parse(exported.mlir_module())
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

    def add_step(self, batch: int, function: Callable[..., Any]) -> None:
        key = jax.ShapeDtypeStruct((2,), numpy.uint32)
        results = [{"kind": "loss"}] + [
            {"kind": "gradient", "name": v.name} for v in self._variables if v.has_gradient]
        self._add("step", batch, function, self._columns, results,
                  [{"kind": "key"}], [key])

    def add_predict(self, batch: int, function: Callable[..., Any]) -> None:
        inputs = [column for column in self._columns if column.kind == "input"]
        results = [{"kind": "output", "name": output.name} for output in self._outputs]
        self._add("predict", batch, function, inputs, results, [], [])

    def _add(self, kind: str, batch: int, function: Callable[..., Any], columns: Sequence[Column],
             results: Sequence[Mapping[str, Any]], last: Sequence[Mapping[str, Any]],
             last_shapes: Sequence[Any]) -> None:
        rows = {v.name: rows_of(v, self._columns, batch) for v in self._variables}
        whole = {v.name: v.shape_of(rows[v.name]) for v in self._variables}
        shapes = [jax.ShapeDtypeStruct(whole[v.name], numpy.float32) for v in self._variables]
        shapes += [column.of(batch) for column in columns]
        code, self._version, avals = _lower(function, [*shapes, *last_shapes])
        self._check(kind, batch, results, avals, whole)
        names: List[Dict[str, Any]] = [
            {"kind": "variable", "name": v.name,
             **({} if rows[v.name] is None else {"rows": rows[v.name]})} for v in self._variables]
        names += [{"kind": column.kind, "name": column.name} for column in columns]
        self._modules.append({
            "kind": kind, "batch": batch, "arguments": [*names, *last], "results": list(results),
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
