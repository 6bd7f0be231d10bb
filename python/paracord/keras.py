"""Programs of Keras models, for layers that Paracord's own runtime does not have: Keras computes
them on JAX. Keras is imported here and nowhere else in this package."""

from __future__ import annotations

import os
import re
from typing import (
    TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union)

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax  # noqa: E402
import keras  # noqa: E402
import numpy  # noqa: E402

from paracord._arguments import (  # noqa: E402
    Dtypes, Initializer, ProgramError, check_named, checked_dtypes, checked_initial, initial_of,
    nearest, only_size)
from paracord._keras_file import convert as convert  # noqa: E402
from paracord._program import (  # noqa: E402
    Batch, Output, Program, Table, Variable, as_list, as_table, loss_of, store_gradient,
    unknown_initial)
from paracord._tables import Computed, check_rows  # noqa: E402

if TYPE_CHECKING:  # exports alone need what it imports, which not every JAX has
    from paracord._stablehlo import Column, Sizes

_MODES = {"fan_in": 0, "fan_out": 1, "fan_avg": 2}
_DISTRIBUTIONS = {"truncated_normal": 0, "untruncated_normal": 1, "uniform": 2}
_SOME_ROWS = 1000  # with which tables are tried
_LARGE = 2.0**20  # a value of a state, of which the observation of one batch takes no digit away
_ATTRIBUTES = {"recurrent_kernel": "recurrent", "depthwise_kernel": "depthwise",
               "pointwise_kernel": "pointwise"}


def _initializer(layer: Any, variable: Any) -> Optional[Initializer]:
    """What the layer draws its variable from, as a worker says it; None if that is not known."""
    name = _ATTRIBUTES.get(variable.name, variable.name)
    given = getattr(layer, name + "_initializer", None)
    if given is None:
        return None
    spec = keras.initializers.serialize(given)
    options: Dict[str, Any] = {}
    for key, value in spec["config"].items():
        value = _MODES.get(value, value) if key == "mode" else value
        value = _DISTRIBUTIONS.get(value, value) if key == "distribution" else value
        if isinstance(value, (int, float)) and key != "seed":
            options[key] = value
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", spec["class_name"]).lower()
    return {"name": snake, **options}


def _seed_of(key: int) -> Callable[[int, Any], Any]:
    """The states of seeds that follow from a batch's key."""
    def seed(i: int, state: Any) -> Any:
        numbers = [(key + i) % 2**32, (key >> 32) % 2**32]
        return numpy.resize(numpy.array(numbers, numpy.uint64), state.shape).astype(state.dtype)

    return seed


def _traced_seed_of(key: Any) -> Callable[[int, Any], Any]:
    """The same of a key of two uint32, the lower half first, that a module is given."""
    def seed(i: int, state: Any) -> Any:
        numbers = jax.numpy.stack([key[0] + jax.numpy.uint32(i), key[1]])
        return jax.numpy.resize(numbers, state.shape).astype(state.dtype)

    return seed


def _shortest(factor: float) -> float:
    """A factor that float32 has rounded, with the digits that somebody wrote."""
    return next((short for short in (round(factor, digits) for digits in range(1, 8))
                 if abs(short - factor) < 1e-7), factor)


class _MeanLoss(keras.losses.Loss):
    """The mean of a function of targets and outputs, which Keras has for a loss by its name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.call = function


class _Model(Program):
    def __init__(self, model: Any, loss: Any, batch: Optional[int], dtypes: Dtypes,
                 initial: Mapping[str, Initializer],
                 tables: Mapping[str, Union[str, Table]]) -> None:
        if keras.backend.backend() != "jax":
            raise ProgramError(
                f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=jax, or import "
                "paracord.keras before keras")
        if not hasattr(model, "outputs") or not hasattr(model, "inputs"):
            raise ProgramError(f"the model is a {type(model).__name__}, whose inputs and outputs "
                               "nobody knows: give a Sequential or a keras.Model(inputs, outputs)")
        if not model.built:
            raise ProgramError("the model is not built: give it an Input, or call model.build")
        initial = checked_initial(initial)
        self.model = model
        self.batches = only_size(batch)
        self.dtypes = checked_dtypes(dtypes)
        found = keras.losses.get(loss)
        self._loss = found if isinstance(found, keras.losses.Loss) else _MeanLoss(found)
        outputs = model.outputs
        self.outputs = [Output(o.shape[1:], o.name if len(outputs) > 1 else "") for o in outputs]
        self._trained = list(model.trainable_variables)
        self._states = list(model.non_trainable_variables)
        self._kinds = self._find_kinds()
        owners = {id(v): layer for layer in model._flatten_layers()
                  for v in (*layer._trainable_variables, *layer._non_trainable_variables)}
        self.variables = [self._variable(v, owners, initial) for v in self._trained]
        for state, (kind, factor) in zip(self._states, self._kinds):
            if kind != "seed":
                self.variables.append(self._variable(
                    state, owners, initial, trainable=False, assigned=kind == "assigned",
                    moving_average=factor))
        check_named(initial, [variable.name for variable in self.variables])
        for name, table in tables.items():
            self._set_table(name, as_table(name, table), owners)
        if tables:
            self._check_tables()
            self.all_rows = True  # else each number of rows would be compiled
        self._step = jax.jit(jax.value_and_grad(self._compute, has_aux=True))
        self._infer = jax.jit(self._inference)

    def _variable(self, v: Any, owners: Mapping[int, Any], initial: Mapping[str, Initializer],
                  **kind: Any) -> Variable:
        value = numpy.asarray(v)
        prefix = self.model.name + "/"  # "dense/kernel", as in a job of the model's JSON
        name = v.path[len(prefix):] if v.path.startswith(prefix) else v.path
        if value.dtype != numpy.float32:
            raise ProgramError(f"variable {name} is {value.dtype}, and only float32 is trained")
        layer: Any = owners.get(id(v))
        if v.constraint is not None and not isinstance(v.constraint, keras.constraints.NonNeg):
            raise ProgramError(
                f"layer {layer.name!r}: {name} has the constraint {type(v.constraint).__name__}, "
                "and variables of a program can have NonNeg alone")
        constraint = "" if v.constraint is None else "non_neg"
        known = initial_of(name, initial) or _initializer(layer, v)
        if known is None and (value == value.flat[0]).all():
            known = {"name": "constant", "value": float(value.flat[0])}
        if known is None:
            raise unknown_initial([name], "program(model, loss",
                                  "{v.path: v for v in model.variables}")
        return Variable(name, value.shape, known, constraint=constraint, **kind)

    def _set_table(self, name: str, table: Optional[Table], owners: Mapping[int, Any]) -> None:
        """Makes the variable of an Embedding a table, by the variable's name or the layer's."""
        states = [s for s, (kind, _) in zip(self._states, self._kinds) if kind != "seed"]
        for variable, v in zip(self.variables, [*self._trained, *states]):
            if name not in (variable.name, variable.name.rpartition("/")[0]):
                continue
            layer = owners.get(id(v))
            if not isinstance(layer, keras.layers.Embedding):
                continue
            what = f"layer {layer.name!r}: {variable.name}"
            if not variable.trainable:
                raise ProgramError(f"{what} is not trained, and no table: it moves once")
            for act in ("embeddings_regularizer", "embeddings_constraint"):
                if getattr(layer, act) is not None:
                    raise ProgramError(f"{what} is no table: its {act} acts on every row, and a "
                                       "batch is given the rows that it reads")
            variable.table = table
            return
        raise ProgramError(
            f"there is no Embedding {name!r} to be a table; "
            + nearest(name, [layer.name for layer in self.model._flatten_layers()
                             if isinstance(layer, keras.layers.Embedding)]))

    def _check_tables(self) -> None:
        """Refuses tables by whose rows and numbers the model computes something else than by whole
        Embeddings and ids, as it does where it uses an id for more than to look up its row."""
        inputs = self._some_ids([v for v in self.variables if v.table])
        states = [s for s, (kind, _) in zip(self._states, self._kinds) if kind != "seed"]
        values = [numpy.asarray(v) for v in (*self._trained, *states)]
        random = numpy.random.default_rng(0)
        for at, variable in enumerate(self.variables):
            if variable.table:
                rows = min(variable.shape[0], _SOME_ROWS)
                values[at] = random.uniform(-1, 1, (rows, *variable.shape[1:]))

        def compute(values: List[numpy.ndarray], inputs: Dict[str, numpy.ndarray]) -> Computed:
            found = self._inference(
                *self._split(values, _seed_of(0), averages=False), list(inputs.values()))
            return [numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves(found)], {}

        check_rows(self, values, inputs, compute)

    def _some_ids(self, tables: Sequence[Variable]) -> Dict[str, numpy.ndarray]:
        """The inputs of a small batch."""
        names = self.input_names()
        inputs: Dict[str, Any] = {
            name: numpy.ones((2, *(size or 1 for size in i.shape[1:])), i.dtype)
            for name, i in zip(names, self.model.inputs)}
        random = numpy.random.default_rng(0)
        for variable in tables:
            assert variable.table is not None
            for name in variable.table.columns:
                if name not in inputs:
                    raise ProgramError(f"table {variable.name} reads the input {name!r}, which the "
                                       f"model lacks: it has {names}")
                most = min(v.shape[0] for v in tables if v.table and name in v.table.columns)
                inputs[name] = random.integers(0, min(most, _SOME_ROWS), inputs[name].shape)
        return inputs

    def input_names(self) -> List[str]:
        """The names of the columns that are the model's inputs; any where it is the only one."""
        if len(self.model.inputs) > 1:
            return [i.name for i in self.model.inputs]
        named = {name for v in self.variables if v.table for name in v.table.columns}
        return [named.pop() if len(named) == 1 else ""]

    def _call(self, trained: Sequence[Any], states: Sequence[Any], inputs: Sequence[Any],
              training: bool) -> Tuple[Any, List[Any], Any]:
        """The model's outputs, new states and losses, as its stateless_call has them; that would
        refuse tables, which have the rows of a batch alone."""
        with keras.StatelessScope(collect_losses=True) as scope:
            for variable, value in zip([*self._trained, *self._states], [*trained, *states]):
                scope.add_update(
                    (variable, keras.ops.convert_to_tensor(value, dtype=variable.dtype)))
            outputs = self.model.call(self._fed(inputs), training=training)
            losses = self.model.losses
        return outputs, [scope.get_current_value(state) for state in self._states], sum(losses)

    def _find_kinds(self) -> List[Tuple[str, float]]:
        """What becomes of each state in training: a moving average, something else that is
        assigned, nothing, or a seed. Its new values show it, of three values that it is given
        while the other states are as they are."""
        inputs = [numpy.ones((2, *(size or 1 for size in i.shape[1:])), i.dtype)
                  for i in self.model.inputs]
        trained = [numpy.asarray(v) for v in self._trained]
        states = [numpy.asarray(s) for s in self._states]
        step = jax.jit(lambda trained, states: self._call(trained, states, inputs, True)[1])

        def new(at: int, number: float) -> numpy.ndarray:
            given = list(states)
            given[at] = numpy.full(states[at].shape, number, states[at].dtype)
            return numpy.asarray(step(trained, given)[at], numpy.float64)

        def kind(at: int) -> Tuple[str, float]:
            if not numpy.issubdtype(states[at].dtype, numpy.floating):
                return "seed", 0.0
            if not states[at].size:
                return "kept", 0.0
            at0, at1, large = new(at, 0), new(at, 1), new(at, _LARGE)
            if (at0 == 0).all() and (at1 == 1).all() and (large == _LARGE).all():
                return "kept", 0.0
            factors = (large - at0) / _LARGE
            factor = _shortest(float(factors.mean()))
            affine = (abs(factors - factor) < 1e-6).all() and numpy.allclose(
                at1, at0 + factor, rtol=1e-4, atol=1e-4)
            return ("average", factor) if affine and 0 < factor < 1 else ("assigned", 0.0)

        return [kind(at) for at in range(len(states))]

    def _fed(self, inputs: Sequence[Any]) -> Any:
        return inputs[0] if len(self.model.inputs) == 1 else list(inputs)

    def _inputs(self, batch: Batch) -> List[numpy.ndarray]:
        names = [i.name for i in self.model.inputs]
        if set(names) <= set(batch.inputs):
            return [batch.inputs[name] for name in names]
        if len(names) != len(batch.inputs):
            raise ProgramError(f"the model has {len(names)} inputs, the data {len(batch.inputs)}")
        return list(batch.inputs.values())

    def _split(self, values: Sequence[Any], seed: Callable[[int, Any], Any],
               averages: bool) -> Tuple[List[Any], List[Any]]:
        """The values of trained variables and of states, of which a seed's is seed(i, state);
        `averages`: those start from 0."""
        kept = iter(values[len(self._trained):])
        states = []
        for i, (state, (kind, _)) in enumerate(zip(self._states, self._kinds)):
            if kind == "seed":
                states.append(seed(i, state))
                continue
            value = next(kept)
            states.append(jax.numpy.zeros_like(value) if averages and kind == "average" else value)
        return list(values[:len(self._trained)]), states

    def _pushed(self, gradients: Sequence[Any], states: Sequence[Any]) -> List[Any]:
        """What each variable is pushed: its gradient, or what a batch makes of a state."""
        pushed = list(gradients)
        for (kind, factor), state in zip(self._kinds, states):
            if kind != "seed":
                pushed.append(state / (1 - factor) if kind == "average" else state)
        return pushed

    def _weighed(self, outputs: Any, columns: Tuple[Any, Any]) -> Any:
        targets, weights = columns
        return self._loss(targets, outputs, sample_weight=weights)

    def _compute(self, trained: Any, states: Any, inputs: Any, columns: Any) -> Any:
        outputs, new, more = self._call(trained, states, inputs, training=True)
        return self._weighed(outputs, columns) + more, new

    def _inference(self, trained: Any, states: Any, inputs: Any) -> Any:
        outputs, _, more = self._call(trained, states, inputs, training=False)
        return outputs, more

    @staticmethod
    def _columns(batch: Batch) -> Tuple[Any, Any]:
        targets, weights = list(batch.targets.values()), list(batch.weights.values())
        if len(targets) != 1 or len(weights) > 1:
            raise ProgramError(f"the data has {len(targets)} targets, and a loss takes one")
        return targets[0], weights[0] if weights else None

    def gradients(
        self,
        values: Sequence[numpy.ndarray],
        batch: Batch,
        gradients: Sequence[Optional[numpy.ndarray]],
        done: Callable[[int], None],
    ) -> float:
        trained, states = self._split(values, _seed_of(batch.key), averages=True)
        (loss, new), found = self._step(trained, states, self._inputs(batch), self._columns(batch))
        for variable, what, to in zip(self.variables, self._pushed(found, new), gradients):
            if to is not None:
                store_gradient(variable, what, to)
        return float(loss)

    def evaluate(self, values: Sequence[numpy.ndarray], batch: Batch) -> float:
        outputs, more = self._infer(
            *self._split(values, _seed_of(0), averages=False), self._inputs(batch))
        return float(self._weighed(outputs, self._columns(batch)) + more)

    def predict(self, values: Sequence[numpy.ndarray], batch: Batch) -> List[Any]:
        outputs, _ = self._infer(
            *self._split(values, _seed_of(0), averages=False), self._inputs(batch))
        return as_list(outputs)

    def target_shape(self) -> Tuple[int, ...]:
        """The shape of an example's target, which has no classes where the loss is sparse."""
        function = self._loss.call if isinstance(self._loss, _MeanLoss) else getattr(
            self._loss, "fn", self._loss)
        name = str(getattr(function, "__name__", type(function).__name__))
        shape = tuple(self.model.outputs[0].shape[1:])
        return shape[:-1] if "sparse" in name.lower() else shape

    def export(self, path: str, columns: Sequence[Column], batch: Sizes, records: Optional[int],
               replicas: int) -> None:
        from paracord._stablehlo import Writer, sizes_of

        inputs = sum(column.kind == "input" for column in columns)
        count = len(self.variables)

        def step(*flat: Any) -> Any:
            values, given, key = flat[:count], flat[count:-1], flat[-1]
            trained, states = self._split(values, _traced_seed_of(key), averages=True)
            targets_and_weights = (given[inputs], given[inputs + 1] if given[inputs + 1:] else None)
            (loss, new), found = jax.value_and_grad(self._compute, has_aux=True)(
                trained, states, list(given[:inputs]), targets_and_weights)
            pushed = zip(self.variables, self._pushed(found, new))
            return (loss, *(what for variable, what in pushed if variable.has_gradient))

        def infer(*flat: Any) -> Any:
            seed = _traced_seed_of(jax.numpy.zeros(2, jax.numpy.uint32))
            trained, states = self._split(flat[:count], seed, averages=False)
            outputs, _ = self._inference(trained, states, list(flat[count:]))
            return tuple(as_list(outputs))

        writer = Writer(self.variables, columns, self.outputs)
        writer.add_steps(batch, records, replicas, step)
        writer.add_predict(sizes_of(batch, records)[0], infer)
        writer.write(path, f"paracord.keras, Keras {keras.__version__}")


def export(
    model: Any,
    loss: Any,
    path: str,
    *,
    batch: Sizes = 64,
    records: Optional[int] = None,
    target_shape: Optional[Sequence[int]] = None,
    weights: bool = False,
    dtypes: Optional[Dtypes] = None,
    initial: Optional[Mapping[str, Initializer]] = None,
    tables: Optional[Mapping[str, Union[str, Table]]] = None,
    replicas: int = 1,
) -> None:
    """Writes a program file of a built Keras model of one target and a loss, by name or object: a
    job's {"program": "stablehlo", "file": path}, which a PJRT plug-in computes without Python.

    It has a step for batches of `batch` examples, or of each of these numbers; with `records`, the
    number of the job's training records, also one for the smaller batch at an epoch's end. A
    target's shape follows from the loss and the output where `target_shape` does not say it.
    `weights`: the data have a weight of each example. `dtypes`, `initial` and `tables` are as in
    `program`, and so is what becomes of states, seeds and added losses. Of a table it has room for
    as many rows as a batch has ids, or for its capacity, and the inputs with these ids are int32.
    Of `replicas` devices of a worker each computes a batch, and they add up the gradients
    themselves.
    """
    from paracord._stablehlo import Column, check_dtypes

    made = _Model(model, loss, None, dtypes or {}, initial or {}, tables or {})
    given = {kind: dict((dtypes or {}).get(kind, {})) for kind in ("inputs", "targets", "weights")}
    # The numbers of a table's rows are small, whatever its ids are.
    given["inputs"].update({name: "int32" for v in made.variables if v.table
                            for name in v.table.columns})
    columns = [
        Column("input", name, i.shape[1:],
               given["inputs"].get(name, "int32" if "int" in str(i.dtype) else "float32"))
        for name, i in zip(made.input_names(), model.inputs)]
    shape = made.target_shape() if target_shape is None else target_shape
    columns.append(Column("target", "", shape, given["targets"].get("", "float32")))
    if weights:
        columns.append(Column("weight", "", (), given["weights"].get("", "float32")))
    check_dtypes(dtypes or {}, columns)
    made.export(path, columns, batch, records, replicas)


def program(
    model: Any,
    loss: Any,
    *,
    batch: Optional[int] = None,
    dtypes: Optional[Dtypes] = None,
    initial: Optional[Mapping[str, Initializer]] = None,
    tables: Optional[Mapping[str, Union[str, Table]]] = None,
) -> Program:
    """Makes a program of a built Keras model of one target and a loss, by name or object.

    Variables start from their layers' initializers, by the job's seed; `initial` says it of others.
    Moving statistics become moving averages of all workers, other states are assigned, and the
    batch decides the seeds of dropout and the like. What the layers add by add_loss, and their
    regularizers, are part of the loss. `batch` is the only size that the model computes, if there
    is one; each size is compiled once.
    `tables` names Embeddings of which a worker moves the rows alone that a batch reads, and the
    input that has their ids: {"user": "user_id"}, or {"user": paracord.Table("liked", "shown")}. A
    model's only input may have any name that the data have. Nothing else may read such an input.
    """
    return _Model(model, loss, batch, dtypes or {}, initial or {}, tables or {})
