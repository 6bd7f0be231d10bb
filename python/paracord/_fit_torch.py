"""PyTorch modules for `paracord.fit`."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy
import torch

from paracord import _fit
from paracord._files import result_of
from paracord._fit_data import Columns
from paracord._program import Output

_RUNNING = ("running_mean", "running_var")


def _optimizer(given: Any) -> Any:
    """A job's optimizer; one of torch.optim is translated where the arithmetic is the same."""
    if given is None:
        raise ValueError("a module needs optimizer=: one of torch.optim, or a job's as "
                         '{"name": "adam", "learning_rate": 0.001}')
    if isinstance(given, (str, Mapping)):
        return given
    name = type(given).__name__
    advice = f'give optimizer={{"name": ...}} instead of torch.optim.{name} (docs/optimizers.md)'
    if not isinstance(given, torch.optim.Optimizer) or len(given.param_groups) != 1:
        raise ValueError(f"one optimizer of torch.optim with one group of parameters: {advice}")
    group: Dict[str, Any] = given.param_groups[0]

    def refuse(key: str, why: str) -> None:
        if group.get(key):
            raise ValueError(f"{key}={group[key]!r} {why}: {advice}")

    refuse("maximize", "has no counterpart")
    options: Dict[str, Any] = {"learning_rate": float(group["lr"])}
    if name == "AdamW":
        options["weight_decay"] = group["weight_decay"]
    else:
        refuse("weight_decay", "is added to the gradient there, and is decoupled here")
    if name == "SGD":
        refuse("dampening", "has no counterpart")
        options.update(momentum=group["momentum"], nesterov=group["nesterov"])
    elif name in ("Adam", "AdamW"):
        options.update(beta_1=group["betas"][0], beta_2=group["betas"][1], epsilon=group["eps"],
                       amsgrad=group["amsgrad"])
    elif name == "RMSprop":
        options.update(rho=group["alpha"], momentum=group["momentum"], epsilon=group["eps"],
                       centered=group["centered"])
    elif name == "Adagrad":
        refuse("lr_decay", "has no counterpart")
        options.update(initial_accumulator_value=group["initial_accumulator_value"],
                       epsilon=group["eps"])
    else:
        raise ValueError(advice)
    return {"name": name.lower(), **options}


def _of_logits(metric: Any) -> Any:
    """A metric of probabilities, where the module gives logits."""
    if metric in ("auc", "precision", "recall", "binary_crossentropy"):
        return {"name": metric, "from_logits": True}
    return {"name": "binary_accuracy", "threshold": 0} if metric in (
        "accuracy", "binary_accuracy") else metric


class _Meta:
    """A module whose parameters are shapes alone: values would make another text of the program
    each time, and a large one."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = copy.deepcopy(module)
        self._change(lambda p: torch.nn.Parameter(
            torch.empty_like(p, device="meta"), requires_grad=p.requires_grad))

    def _change(self, change: Callable[[torch.nn.Parameter], torch.nn.Parameter]) -> None:
        made: Dict[int, torch.nn.Parameter] = {}  # shared ones stay shared
        kept = []
        for module in self.module.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    kept.append(parameter)
                    if id(parameter) not in made:
                        made[id(parameter)] = change(parameter)
                    module._parameters[name] = made[id(parameter)]

    def whole(self) -> torch.nn.Module:
        self._change(lambda p: torch.nn.Parameter(
            torch.zeros(p.shape, dtype=p.dtype), requires_grad=p.requires_grad))
        return self.module


class Side(_fit.Side):
    def __init__(self, module: torch.nn.Module, *, loss: Any, optimizer: Any, outputs: Any,
                 dtypes: Any, buffers: Sequence[str], tables: Any, metrics: Any,
                 params: Any = None, predict: Any = None) -> None:
        if loss is None:
            raise ValueError("a module needs loss=, a function (output, target) -> mean loss")
        self._module, self._loss, self._outputs = module, loss, outputs
        self._optimizer = _optimizer(optimizer)
        self._dtypes, self._buffers, self._tables = dtypes, list(buffers), dict(tables or {})
        name = getattr(loss, "__name__", type(loss).__name__).lower().replace("_", "")
        self._metrics = None if metrics is None else [
            _of_logits(metric) if "withlogits" in name else metric for metric in metrics]

    def job(self, folder: str, columns: Sequence[Optional[Columns]]) -> Dict[str, Any]:
        dtypes = _fit.integers(columns) if self._dtypes is None else self._dtypes
        inputs = columns[0]
        outputs = self._outputs
        if outputs is None and inputs is not None:
            outputs = self._found(inputs, dtypes)
        count = 0 if inputs is None else len(inputs.arrays)
        if inputs is None:
            raise ValueError("a module needs x, whose shapes its outputs follow from")
        meta, loss, buffers, tables = _Meta(self._module), self._loss, self._buffers, self._tables

        def make() -> Any:
            import paracord
            return paracord.torch.program(
                meta.whole(), outputs=outputs, dtypes=dtypes, assigned=buffers, tables=tables,
                initial={"*": "initial_weights"})(
                    lambda model, *given: loss(model(*given[:count]), *given[count:]))

        keys: Dict[str, Any] = {"optimizer": self._optimizer}
        if self._metrics is not None:
            keys["metrics"] = self._metrics
        return _fit.write_program(folder, make, **keys)

    def _found(self, inputs: Columns, dtypes: Any) -> List[Output]:
        """The outputs of two examples."""
        wanted = dtypes.get("inputs", {})
        columns = [torch.from_numpy(numpy.array(array[:2], wanted.get(name, "float32")))
                   for name, array in inputs.arrays.items()]
        training = self._module.training
        self._module.eval()
        with torch.no_grad():
            result = self._module(*columns)
        self._module.train(training)
        results = result if isinstance(result, (list, tuple)) else [result]
        return [Output(tuple(one.shape[1:]), f"output_{i}" if len(results) > 1 else "")
                for i, one in enumerate(results)]

    def _tensors(self) -> Dict[str, torch.Tensor]:
        tensors = {name: p for name, p in self._module.named_parameters()}
        for name, buffer in self._module.named_buffers():
            if name.rpartition(".")[2] in _RUNNING or name in self._buffers:
                tensors[name] = buffer
        return tensors

    def start(self) -> Mapping[str, Any]:
        return {name: tensor.detach().cpu() for name, tensor in self._tensors().items()}

    def take(self, source: str) -> None:
        # Constants among the buffers, which load_into would ask for, are no variables of the job.
        values = result_of(source)[0]
        with torch.no_grad():
            for name, tensor in self._tensors().items():
                if name in values:  # a growing table has rows instead
                    tensor.copy_(torch.from_numpy(values[name]))
