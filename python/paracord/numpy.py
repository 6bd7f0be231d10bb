"""Programs of NumPy functions."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy

from paracord._arguments import (
    Dtypes, ProgramError, checked_dtypes, nearest, only_size)
from paracord._program import (
    Batch, Output, Program, Variable, as_list, check_predict, loss_of, store_gradient)

Values = Dict[str, numpy.ndarray]


def _kind(result: Any) -> str:
    if isinstance(result, tuple):
        return "(" + ", ".join(type(each).__name__ for each in result) + ")"
    return type(result).__name__


class _Functions(Program):
    def __init__(
        self,
        function: Callable[..., Tuple[float, Mapping[str, Any]]],
        variables: Sequence[Variable],
        predict: Optional[Callable[..., Any]],
        outputs: Sequence[Output],
        batch: Optional[int],
        dtypes: Dtypes,
    ) -> None:
        check_predict(predict, outputs)
        self.function = function
        self.variables = list(variables)
        self.outputs = list(outputs)
        self.batches = only_size(batch)
        self.dtypes = checked_dtypes(dtypes)
        self._predict = predict
        self._index = {variable.name: i for i, variable in enumerate(self.variables)}

    def _named(self, values: Sequence[numpy.ndarray]) -> Values:
        return {variable.name: value for variable, value in zip(self.variables, values)}

    def gradients(
        self,
        values: Sequence[numpy.ndarray],
        batch: Batch,
        gradients: Sequence[Optional[numpy.ndarray]],
        done: Callable[[int], None],
    ) -> float:
        result = self.function(self._named(values), *batch.columns)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
            raise ProgramError(f"the function returns {_kind(result)}, and must return (mean loss, "
                               "{name of a variable: its gradient})")
        loss, by_name = result
        for name in by_name:
            if name not in self._index:
                raise ProgramError(f"the function returns a gradient of {name!r}, which is no "
                                   f"variable; {nearest(name, self._index)}")
        for variable, to in zip(self.variables, gradients):
            if to is None:
                continue
            if variable.name not in by_name:
                raise ProgramError(f"the function returns no gradient of {variable.name}")
            store_gradient(variable, by_name[variable.name], to)
        return loss_of(loss)

    def predict(self, values: Sequence[numpy.ndarray], batch: Batch) -> List[Any]:
        assert self._predict is not None
        result = self._predict(self._named(values), *batch.inputs.values())
        return as_list(result)


def program(
    *,
    variables: Sequence[Variable],
    predict: Optional[Callable[..., Any]] = None,
    outputs: Sequence[Output] = (),
    batch: Optional[int] = None,
    dtypes: Optional[Dtypes] = None,
) -> Callable[[Callable[..., Tuple[float, Mapping[str, Any]]]], Program]:
    """Makes a program of a function (values, *columns) -> (mean loss, {name: gradient}).

    `values` are arrays by name; the columns are inputs, targets and weights, examples first,
    float32 unless `dtypes` says int64, as in {"inputs": {"user": "int64"}}. `predict` is a function
    (values, *inputs) -> array, or a list of one for each output. The test's loss and metrics are
    those that the job names, of what is predicted. `batch` is the only size that it can compute, if
    there is one.
    """

    def decorate(function: Callable[..., Tuple[float, Mapping[str, Any]]]) -> Program:
        return _Functions(function, variables, predict, outputs, batch, dtypes or {})

    return decorate
