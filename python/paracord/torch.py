"""Programs of PyTorch models."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy
import torch

from paracord._arguments import (
    Dtypes, Initializer, ProgramError, check_named, checked_dtypes, checked_initial, initial_of,
    nearest, only_size)
from paracord._program import (
    Batch, Output, Program, Table, Variable, as_list, as_table, loss_of,
    store_gradient, unknown_initial)
from paracord._torch_initial import known_initial, with_fans


class _Model(Program):
    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., torch.Tensor],
        batch: Optional[int],
        outputs: Sequence[Output],
        initial: Mapping[str, Initializer],
        dtypes: Dtypes,
        assigned: Sequence[str],
        tables: Mapping[str, Union[str, Table]],
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise ProgramError(f"paracord.torch.program is given a {type(model).__name__}: say "
                               "@paracord.torch.program(model) of a torch.nn.Module")
        initial = checked_initial(initial)
        self.model = model
        self.tables = tables
        # The modules whose parameter is a table, and its name there, by variable.
        self._rows: Dict[int, List[Tuple[torch.nn.Module, str]]] = {}
        self.dtypes = checked_dtypes(dtypes)
        self.loss = loss
        self.outputs = list(outputs)
        self.batches = only_size(batch)
        self.variables = []
        self._tensors: List[torch.Tensor] = []
        self._averages: Dict[int, float] = {}  # momentum of running statistics, by variable
        self._padding: Dict[int, int] = {}  # the padding row of Embeddings, by variable
        self._unknown: Dict[str, str] = {}  # modules of parameters that nobody can draw, by name
        for prefix, module in model.named_modules():
            for name, parameter in module.named_parameters(prefix, recurse=False):
                self._add(name, module, parameter, initial, parameter.requires_grad, 0.0)
            for name, buffer in module.named_buffers(prefix, recurse=False):
                self._add_buffer(name, module, buffer, initial, name in assigned)
        names = [variable.name for variable in self.variables]
        for name in assigned:
            if name not in names:
                raise ProgramError(f"there is no buffer {name!r} to be assigned; "
                                   + nearest(name, [n for n, _ in model.named_buffers()]))
        for name in tables:
            if name not in names and f"{name}.weight" not in names:
                raise ProgramError(f"there is no Embedding {name!r} to be a table; "
                                   + nearest(name, names))
        check_named(initial, names)
        if self._unknown:
            raise unknown_initial(list(self._unknown), "program(model", "model.state_dict()",
                                  self._unknown)

    def _table(self, name: str, module: torch.nn.Module, trainable: bool) -> Optional[Table]:
        table = self.tables.get(name, self.tables.get(name.rpartition(".")[0]))
        if table is None:
            return None
        if not trainable:
            raise ProgramError(f"{name} is not trained, and no table: it moves once")
        if not isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise ProgramError(f"{name} of {type(module).__name__} is no Embedding's, and no table")
        if module.max_norm is not None:
            raise ProgramError(f"{name}: max_norm changes rows, which a table's are not by that")
        if module.padding_idx not in (None, 0):
            raise ProgramError(f"{name}: the padding_idx of a table is 0, as row 0 is that of id 0")
        return as_table(name, table)

    def _add(self, name: str, module: torch.nn.Module, tensor: torch.Tensor,
             initial: Mapping[str, Initializer], trainable: bool, average: float,
             assigned: bool = False) -> None:
        for v, other in enumerate(self._tensors):
            if tensor is other:  # shared by two modules
                if v in self._rows:
                    if not isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
                        raise ProgramError(
                            f"{name} of {type(module).__name__} is the table "
                            f"{self.variables[v].name}, too, of which a batch has the rows alone "
                            "that it reads: untie them, or make it no table")
                    self._rows[v].append((module, name.rpartition(".")[2]))
                elif self._padding.get(v) != getattr(module, "padding_idx", None):
                    self._padding.pop(v, None)  # the other module reads and trains that row
                return
        self._check_memory(name, tensor)
        if tensor.dtype != torch.float32:
            raise ProgramError(f"parameter {name} of shape {tuple(tensor.shape)} is "
                               f"{tensor.dtype}, and only float32 is trained: call model.float()")
        short = name.rpartition(".")[2]
        initializer = initial_of(name, initial)
        if initializer is not None:
            initializer = with_fans(name, initializer, tensor)
        else:
            initializer = known_initial(module, short, tensor)
            if initializer is None:
                self._unknown[name] = type(module).__name__
                initializer = "zeros"
        table = self._table(name, module, trainable)
        if table:
            self._rows[len(self.variables)] = [(module, short)]
        elif (isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
              and module.padding_idx is not None and tensor is module.weight):
            self._padding[len(self.variables)] = module.padding_idx
        self.variables.append(
            Variable(name, tensor.shape, initializer, trainable, average, assigned, table))
        self._tensors.append(tensor)

    def _check_memory(self, name: str, tensor: torch.Tensor) -> None:
        """Refuses memory of another variable: PyTorch trains both as one, and here they would be
        two that go apart."""
        if tensor.is_meta or not tensor.numel():
            return
        first, end = _extent(tensor)
        for variable, other in zip(self.variables, self._tensors):
            if other.is_meta or not other.numel():
                continue
            begin, behind = _extent(other)
            if first < behind and begin < end:
                raise ProgramError(
                    f"{name} shares memory with {variable.name}, and is another Parameter: tie "
                    "them by assigning the Parameter itself (decoder.weight = encoder.weight), "
                    "not its .data or a copy of what detach() gives; or clone() what is untied")

    def _add_buffer(self, name: str, module: torch.nn.Module, buffer: torch.Tensor,
                    initial: Mapping[str, Initializer], assigned: bool) -> None:
        if assigned:
            return self._add(name, module, buffer, initial, False, 0.0, assigned=True)
        running = name.rsplit(".", 1)[-1] in ("running_mean", "running_var")
        if not running:
            return  # a constant, or a counter that nothing depends on
        momentum = getattr(module, "momentum", None)
        if momentum is None or not 0 < momentum <= 1:
            raise ProgramError(
                f"{name} of {type(module).__name__} has the momentum {momentum}: give it one "
                "above 0, for a moving average")
        if momentum == 1:  # a call leaves what it saw, and nothing of what was there
            return self._add(name, module, buffer, initial, False, 0.0, assigned=True)
        self._averages[len(self.variables)] = momentum
        self._add(name, module, buffer, initial, False, 1 - momentum)

    def attach(self, values: Sequence[numpy.ndarray]) -> None:
        for v, (tensor, value) in enumerate(zip(self._tensors, values)):
            if v not in self._rows:
                tensor.data = torch.from_numpy(value)
        self._attach_rows(values)

    def _attach_rows(self, values: Sequence[numpy.ndarray]) -> None:
        """Gives modules the rows of a batch. Parameters of another size have to be new ones."""
        for v, places in self._rows.items():
            rows = torch.nn.Parameter(torch.from_numpy(values[v]))
            self._tensors[v] = rows
            if places[0][0].padding_idx == 0:
                rows.data[0] = 0
            for module, name in places:
                setattr(module, name, rows)

    def _begin(self, values: Sequence[numpy.ndarray]) -> None:
        """Makes the values those of a batch: a worker draws padding rows as it does others."""
        for v, row in self._padding.items():
            values[v][row] = 0
        self._attach_rows(values)

    def _columns(self, batch: Batch) -> List[torch.Tensor]:
        return [torch.from_numpy(column) for column in batch.columns]

    def _called(self, batch: Batch) -> Any:
        try:
            return self.loss(self.model, *self._columns(batch))
        except (RuntimeError, IndexError) as error:
            floats = [name for name, column in batch.targets.items()
                      if column.dtype == numpy.float32]
            if not floats or not re.search(r"\b(Long|int64|integer|Byte)\b", str(error)):
                raise
            raise ProgramError(
                f"{error}; the targets come as float32: where they are labels, say "
                f'dtypes={{"targets": {{{floats[0]!r}: "int64"}}}} in paracord.torch.program') \
                from error

    def gradients(
        self,
        values: Sequence[numpy.ndarray],
        batch: Batch,
        gradients: Sequence[Optional[numpy.ndarray]],
        done: Callable[[int], None],
    ) -> float:
        torch.manual_seed(batch.key % 2**63)
        self._begin(values)
        self.model.train()
        self.model.zero_grad(set_to_none=True)
        for v, variable in enumerate(self.variables):
            if v in self._averages or variable.assigned:
                self._tensors[v].data = torch.from_numpy(values[v].copy())
        try:
            loss = self._called(batch)
            if not isinstance(loss, torch.Tensor) or loss.dim() != 0 or not loss.requires_grad:
                what = f"a {type(loss).__name__}" if not isinstance(loss, torch.Tensor) else \
                    f"of shape {tuple(loss.shape)}" if loss.dim() else "without a gradient"
                raise ProgramError(f"the loss is {what}: return the mean over the batch, as a "
                                   "tensor that was computed by the parameters")
            loss.backward()
            self._store(values, gradients)
        finally:  # else the next batch would compute on the copies
            self.attach(values)
        return float(loss.detach())

    def _store(self, values: Sequence[numpy.ndarray],
               gradients: Sequence[Optional[numpy.ndarray]]) -> None:
        for v, (variable, tensor, to) in enumerate(zip(self.variables, self._tensors, gradients)):
            if to is None:
                continue
            if v in self._averages:
                # The observation that makes a moving average of the values what the module has
                # made of them, in however many calls: the values themselves, if there was none.
                moved = (tensor.numpy() - values[v]) / numpy.float32(self._averages[v])
                store_gradient(variable, values[v] + moved, to)
            elif variable.assigned:
                store_gradient(variable, tensor.numpy(), to)
            elif tensor.grad is None:
                to[...] = 0  # the loss of this batch does not depend on it
            else:
                store_gradient(variable, tensor.grad.to_dense().numpy(), to)

    def evaluate(self, values: Sequence[numpy.ndarray], batch: Batch) -> float:
        self._begin(values)
        self.model.eval()
        with torch.no_grad():
            return loss_of(self._called(batch))

    def predict(self, values: Sequence[numpy.ndarray], batch: Batch) -> List[Any]:
        self._begin(values)
        self.model.eval()
        with torch.no_grad():
            result = self.model(*(torch.from_numpy(column) for column in batch.inputs.values()))
        return as_list(result)


def _extent(tensor: torch.Tensor) -> Tuple[int, int]:
    """The addresses of a tensor's first byte, and behind its last."""
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    first = tensor.data_ptr()
    return first, first + (last + 1) * tensor.element_size()


def program(
    model: torch.nn.Module,
    *,
    batch: Optional[int] = None,
    outputs: Sequence[Output] = (),
    initial: Optional[Mapping[str, Initializer]] = None,
    dtypes: Optional[Dtypes] = None,
    assigned: Sequence[str] = (),
    tables: Optional[Mapping[str, Union[str, Table]]] = None,
) -> Callable[[Callable[..., torch.Tensor]], Program]:
    """Makes a program of a model and a function (model, *columns) -> mean loss.

    The columns are tensors of the job's inputs, targets and weights, examples first, float32 unless
    `dtypes` says int64, as in {"targets": {"": "int64"}}. The model's parameters become views of
    the memory that the worker fills. They start from what PyTorch's modules draw from, by the job's
    seed and not PyTorch's, or from the one number that they all have; `initial` says it of others,
    by name or pattern ("initial_weights": the values are in the job's file of these). The fans of
    "he_normal" and the like are PyTorch's, whose axes are (outputs, inputs, ...).
    `assigned` names buffers whose new value each batch pushes, of which the last one stays (those
    of spectral_norm); running statistics become moving averages, and other buffers stay here.
    `tables` names Embeddings of which a worker moves the rows alone that a batch reads, and the
    input that has their ids: {"user": "user_id"}, or {"user": paracord.Table("liked", "shown")}. In
    these inputs the columns then have local numbers, and Embeddings their rows; num_embeddings says
    nothing where the job has the table grow, and a large one is best made with device="meta".
    `outputs` declares what model(*inputs) returns, for the job's `metrics`. `batch` is the only
    size that the model can compute, if there is one.
    """

    def decorate(loss: Callable[..., torch.Tensor]) -> Program:
        return _Model(model, loss, batch, outputs, initial or {}, dtypes or {}, assigned,
                      tables or {})

    return decorate
