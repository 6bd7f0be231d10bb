"""Puts trained values into a model of Keras or PyTorch."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple

import numpy

from paracord._arguments import ProgramError
from paracord._files import result_of

_SHOWN = 10


def load_into(model: Any, source: str, *, tables: str = "refuse") -> None:
    """Sets the variables of a Keras model or the parameters and buffers of a torch module to what a
    job has trained: `source` is its directory, a checkpoint's, or a safetensors file.

    Names and shapes must agree on both sides, or the error names what does not and no value is
    changed. A Keras model whose first layer is a Dense is built if it is not yet. A growing table
    has no place in a model: with tables="skip" such tables are left out.
    """
    if tables not in ("refuse", "skip"):
        raise ProgramError(f'tables is {tables!r}, and must be "refuse" or "skip"')
    values, growing = result_of(source)
    if growing and tables == "refuse":
        raise ProgramError(f"{source}: {', '.join(growing)} grow, and a model holds no such table: "
                           'say tables="skip" (--skip-tables of paracord.export) and look their '
                           "rows up (paracord.predictor does it)")
    if hasattr(model, "state_dict") and hasattr(model, "named_parameters"):
        _into_torch(model, source, values)
    elif hasattr(model, "weights") and hasattr(model, "layers"):
        _into_keras(model, source, values, growing)
    else:
        raise ProgramError(f"the model is a {type(model).__name__}: give a Keras model or a "
                           "torch.nn.Module")


def _refuse(source: str, problems: Sequence[str]) -> None:
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise ProgramError(f"{source} does not fit the model: "
                           + "; ".join(problems[:_SHOWN]) + more)


def _missing(names: Sequence[str], values: Mapping[str, Any], used: Set[str]) -> List[str]:
    return ([f"it lacks {name}" for name in names]
            + [f"the model lacks {name}" for name in values if name not in used])


def _into_torch(model: Any, source: str, values: Mapping[str, numpy.ndarray]) -> None:
    import torch

    state = model.state_dict()
    # Counters such as num_batches_tracked are no variables of a job.
    wanted = {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}
    problems = _missing([name for name in wanted if name not in values], values,
                        {name for name in values if name in wanted})
    for name, tensor in wanted.items():
        if name in values and tuple(tensor.shape) != values[name].shape:
            problems.append(f"{name} has the shape {values[name].shape}, the model's is "
                            f"{tuple(tensor.shape)}")
    _refuse(source, problems)
    with torch.no_grad():
        for name, tensor in wanted.items():  # of the model's own memory
            tensor.copy_(torch.from_numpy(numpy.array(values[name], "f4")))


def paths_of(model: Any) -> List[Tuple[Any, str]]:
    """Keras' path of each variable, with a slash in front. It begins with the model's name in a
    Sequential, and lacks it in a nested model."""
    layers: List[Any] = []

    def walk(layer: Any) -> None:
        for inner in getattr(layer, "layers", ()):
            layers.append(inner)
            walk(inner)

    walk(model)
    crosses: Dict[int, str] = {}  # Keras numbers the names of their variables
    for layer in layers:
        if type(layer).__name__ == "FeatureCross":
            for part in ("dense", "down_proj_dense"):
                for variable in getattr(getattr(layer, part, None), "weights", ()):
                    crosses[id(variable)] = f"/{layer.name}/{part}/{variable.name}"
    found = []
    for variable in model.weights:
        # LayerScale gives its variable no name of its own.
        path = re.sub("/variable(_[0-9]+)?$", "/gamma", "/" + getattr(
            variable, "path", variable.name.partition(":")[0]))
        found.append((variable, crosses.get(id(variable), path)))
    return found


def _build(model: Any, values: Mapping[str, numpy.ndarray]) -> None:
    """Gives a Keras model without an Input its variables. Their shapes follow from the model's
    inputs, of which the values tell the width alone, and that only where a Dense comes first."""
    first = model.layers[0] if model.layers else None
    kernel = values.get(f"{first.name}/kernel") if type(first).__name__ == "Dense" else None
    how = ("the model is not built and has no variables yet: give it an Input, or call "
           "model.build((None, ...)) with the shape of its inputs")
    if kernel is None or kernel.ndim != 2:
        raise ProgramError(how)
    try:
        model.build((None, kernel.shape[0]))
    except Exception as error:  # of whatever layer
        raise ProgramError(f"{how}; for inputs of {kernel.shape[0]} numbers Keras says: "
                           f"{error}") from error


def _into_keras(model: Any, source: str, values: Mapping[str, numpy.ndarray],
                growing: Sequence[str]) -> None:
    if not getattr(model, "built", True):
        _build(model, values)
    used: Dict[str, str] = {}
    assigned: List[Tuple[Any, numpy.ndarray]] = []
    problems: List[str] = []
    lacking: List[str] = []
    for variable, path in paths_of(model):
        alike = [name for name in values
                 if ("/" + name).endswith(path) or path.endswith("/" + name)]
        if not alike:
            grows = any(path.endswith("/" + table) for table in growing)
            if not grows and not path.endswith("/count"):  # of Normalization, which adapt() counts
                lacking.append(path[1:])
            continue
        name = min(alike, key=lambda name: abs(len(name) + 1 - len(path)))
        if name in used:
            problems.append(f"{name} would be both {used[name]} and {path[1:]}")
        elif tuple(variable.shape) != values[name].shape:
            problems.append(f"{name} has the shape {values[name].shape}, the model's is "
                            f"{tuple(variable.shape)}")
        used[name] = path[1:]
        assigned.append((variable, values[name]))
    _refuse(source, problems + _missing(lacking, values, set(used)))
    for variable, value in assigned:
        variable.assign(value)
