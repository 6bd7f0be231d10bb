"""Keras models for `paracord.fit`."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

import keras
import numpy

from paracord import _fit
from paracord._fit_data import Columns
from paracord._fit_run import TrainError
from paracord._keras_file import add_vocabularies
from paracord._load_into import load_into


def _names(tensors: Any) -> List[str]:
    """The names of a model's inputs or outputs; "" of the only one."""
    return [t.name for t in tensors] if len(tensors) > 1 else [""]


def _custom_objects(model: Any) -> Dict[str, Any]:
    """The classes of layers that are not Keras' own, by the names that a config may have."""
    classes = {type(layer) for layer in [model, *model._flatten_layers()]
               if not type(layer).__module__.startswith("keras.")}
    found: Dict[str, Any] = {}
    for each in sorted(classes, key=lambda each: each.__name__):
        found[each.__name__] = found[keras.saving.get_registered_name(each)] = each
    return found


class Side(_fit.Side):
    library = "Keras"

    def __init__(self, model: Any, *, tables: Any, dtypes: Any, metrics: Any = None,
                 **others: Any) -> None:
        given = [name for name, value in others.items() if value is not None and value != ()]
        if given:
            raise ValueError(f"a Keras model is compiled, and takes no {given[0]}=")
        if not getattr(model, "compiled", False):
            raise ValueError('the model is not compiled: model.compile(optimizer="adam", loss=..)')
        if not model.built:
            raise ValueError("the model is not built: give it an Input, or call model.build")
        self._model, self._tables, self._dtypes = model, tables, dtypes
        self.inputs, self.outputs = _names(model.inputs), _names(model.outputs)
        self.shapes = {name: tuple(i.shape[1:]) for name, i in zip(self.inputs, model.inputs)}
        self._spec = json.loads(model.to_json())
        add_vocabularies(model, self._spec)

    def job(self, folder: str, columns: Sequence[Optional[Columns]]) -> Dict[str, Any]:
        with open(os.path.join(folder, "model.json"), "w") as file:
            json.dump(self._spec, file)
        return {"model": "model.json"}

    def as_program(self, folder: str, columns: Sequence[Optional[Columns]],
                   refused: str) -> Dict[str, Any]:
        if keras.backend.backend() != "jax":
            # Without the names of all that is supported, which would hide what to do.
            raise TrainError(f"{refused.partition('; ')[0]}: set KERAS_BACKEND=jax before Keras is "
                             "imported, and Keras computes the model on the workers; its backend "
                             f"here is {keras.backend.backend()}")
        # The loss of Keras compares shapes as they are, which its own fit does not.
        if tuple(self._model.outputs[0].shape[1:]) == (1,):
            for path in (os.path.join(folder, "data", name) for name in ("y.npy", "test-y.npy")):
                if os.path.exists(path):
                    labels = numpy.load(path)
                    numpy.save(path, labels.reshape(len(labels), -1))
        spec = {key: value for key, value in self._spec.items() if key != "compile_config"}
        custom, loss = _custom_objects(self._model), self._model.loss
        if isinstance(loss, keras.losses.Loss):
            loss = keras.losses.serialize(loss)
        dtypes = _fit.integers(columns) if self._dtypes is None else self._dtypes
        program_tables = {name: table for name, table in (self._tables or {}).items()
                          if not isinstance(table, Mapping)}

        def make() -> Any:
            import keras
            import paracord
            model = keras.saving.deserialize_keras_object(spec, custom_objects=custom,
                                                          safe_mode=False)
            one = keras.losses.deserialize(loss) if isinstance(loss, dict) else loss
            return paracord.keras.program(model, one, dtypes=dtypes, tables=program_tables,
                                          initial={"*": "initial_weights"})

        compiled = self._spec.get("compile_config") or {}
        keys = {"optimizer": compiled.get("optimizer")}
        if compiled.get("metrics"):
            keys["metrics"] = compiled["metrics"]
        return _fit.write_program(folder, make, **keys)

    def _variables(self) -> Dict[str, Any]:
        return {v.path: v for v in self._model.weights if "seed_generator" not in v.path}

    def start(self) -> Mapping[str, Any]:
        grows = [name for name, table in (self._tables or {}).items()
                 if isinstance(table, Mapping) and table.get("kind") == "growing"]
        return {path: numpy.asarray(v) for path, v in self._variables().items()
                if not any(f"/{name}/" in f"/{path}" for name in grows)}

    def take(self, source: str) -> None:
        load_into(self._model, source, tables="skip")

    def history(self) -> Any:
        history = keras.callbacks.History()
        history.set_model(self._model)
        return history
