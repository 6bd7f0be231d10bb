"""JAX functions for `paracord.fit`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import jax
import numpy

from paracord import _fit
from paracord._files import result_of
from paracord._fit_data import Columns


class Side(_fit.Side):
    def __init__(self, function: Callable[..., Any], *, params: Any, optimizer: Any,
                 predict: Optional[Callable[..., Any]], outputs: Optional[Sequence[Any]],
                 dtypes: Any, tables: Any, loss: Any = None, buffers: Any = (),
                 metrics: Any = None) -> None:
        if params is None:
            raise ValueError("a JAX function needs params=, its tree of float32 arrays")
        if optimizer is None or not isinstance(optimizer, (str, Mapping)):
            raise ValueError('give optimizer= as a job has it: {"name": "adam", '
                             '"learning_rate": 0.001} (docs/optimizers.md)')
        self._function, self._params, self._optimizer = function, params, optimizer
        self._predict, self._outputs = predict, outputs
        self._dtypes, self._tables = dtypes, tables

    def job(self, folder: str, columns: Sequence[Optional[Columns]]) -> Dict[str, Any]:
        function, predict, outputs = self._function, self._predict, list(self._outputs or ())
        dtypes = _fit.integers(columns) if self._dtypes is None else self._dtypes
        tables = dict(self._tables or {})

        # Shapes alone: values would make another text of the program each time.
        def shape(leaf: Any) -> Any:
            array = numpy.asarray(leaf)
            return jax.ShapeDtypeStruct(array.shape, array.dtype)

        shapes = jax.tree_util.tree_map(shape, self._params)

        def make() -> Any:
            import paracord
            params = jax.tree_util.tree_map(
                lambda leaf: numpy.zeros(leaf.shape, leaf.dtype), shapes)
            return paracord.jax.program(params, predict=predict, outputs=outputs, dtypes=dtypes,
                                        tables=tables, initial={"*": "initial_weights"})(function)

        return _fit.write_program(folder, make, optimizer=self._optimizer)

    def start(self) -> Mapping[str, Any]:
        return self._params  # type: ignore[no-any-return]

    def take(self, source: str) -> None:
        from paracord.jax import _name
        values = result_of(source)[0]
        leaves, tree = jax.tree_util.tree_flatten_with_path(self._params)
        self._params = jax.tree_util.tree_unflatten(
            tree, [values[_name(path)] for path, _ in leaves])

    def result(self, history: Any) -> Tuple[Any, Any]:
        return history, self._params
