"""The child's side of the protocol between a worker and a program (proto/PROGRAM.md)."""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
import stat
import sys
import time
import traceback
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy

from paracord._arguments import KINDS, ProgramError
from paracord._forks import end_with_this
from paracord._program import Batch, Program, loss_of, store_outputs
from paracord._tables import check_batch, number_ids

SOCKET, MEMORY = 3, 4  # the descriptors that the worker leaves to its child
PACKET_MAX = 256 << 10
SPIN_SECONDS = 100e-6
_ERROR_BYTES = 4096
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _worker_socket() -> Optional[socket.socket]:
    """The socket to the worker that has started this process, if one has."""
    try:
        if "PARACORD_TASK" not in os.environ or not stat.S_ISSOCK(os.fstat(SOCKET).st_mode):
            return None
    except OSError:
        return None
    found = socket.socket(fileno=SOCKET)
    if found.type != socket.SOCK_SEQPACKET:  # of a process that the user's code has started
        found.detach()
        return None
    found.set_inheritable(False)
    end_with_this(found)
    return found


_worker = _worker_socket()


def serve(program: Program, data: Optional[Mapping[str, Mapping[str, Any]]] = None) -> None:
    """Serves the worker that started this process until it wants no more.

    Without a worker it tries one batch and prints what it found. `data` may give that batch's
    columns: {"inputs": {"": array}, "targets": {"": array}}.
    """
    if not isinstance(program, Program):
        raise ProgramError(
            f"paracord.serve is given a {type(program).__name__}: give it what a decorator makes, "
            "@paracord.numpy.program(variables=...), @paracord.torch.program(model) or "
            "@paracord.jax.program(params) above a function, or paracord.keras.program(model, "
            "loss)")
    if _worker is not None:
        _Session(program, _worker).run()
        return
    try:
        _try_alone(program, data)
    except ProgramError as error:
        sys.exit(f"paracord: {error}")


def _number(value: float) -> Optional[float]:
    """JSON has no numbers that are not finite; a worker takes null for one."""
    return value if math.isfinite(value) else None


def _error(text: str) -> Dict[str, Any]:
    """A packet that says what went wrong, of what a packet may have and in letters that UTF-8 has.
    """
    cut = text.encode("utf-8", "replace")[:_ERROR_BYTES]
    return {"error": cut.decode("utf-8", "ignore")}


class _Session:
    def __init__(self, program: Program, worker: socket.socket) -> None:
        self.program = program
        self.socket = worker
        self.values: List[numpy.ndarray] = []
        self.gradients: List[Optional[numpy.ndarray]] = []
        self.outputs: List[numpy.ndarray] = []
        self.tables: List[int] = []
        self.checked = False  # that it computes by rows of tables what it would by whole ones
        self.columns: Dict[str, Dict[str, numpy.ndarray]] = {}
        self.packet = bytearray(PACKET_MAX)
        self.spare_cpu = len(os.sched_getaffinity(0)) > 1
        self.misses = self.waits = 0
        self.cut: Dict[int, Dict[str, Dict[str, numpy.ndarray]]] = {}  # columns, by examples

    def send(self, packet: Dict[str, Any]) -> None:
        self.socket.send(_encode(packet).encode())

    def receive_soon(self) -> Optional[int]:
        """Looks for a packet for a while, since to sleep and wake up takes longer than most waits.
        Where packets rarely come in time it rarely looks, as the CPU is somebody else's then."""
        self.waits += 1
        if not self.spare_cpu or (self.misses >= 3 and self.waits % 32):
            return None
        until = time.perf_counter() + SPIN_SECONDS
        while True:
            try:
                size = self.socket.recv_into(self.packet, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if time.perf_counter() < until:
                    continue
                self.misses += 1
                return None
            self.misses = 0
            return size

    def receive(self) -> Optional[Dict[str, Any]]:
        size = self.receive_soon()
        if size is None:
            size = self.socket.recv_into(self.packet)
        return json.loads(self.packet[:size]) if size else None  # the worker is gone

    def run(self) -> None:
        for packet in self.program.hello():
            self.send(packet)
        if not self.take_layout():
            return
        try:
            self.program.attach(self.values)
        except ProgramError as error:
            self.send(_error(str(error)))
            return
        self.send({"ready": True})
        while True:
            request = self.receive()
            if request is None or request["do"] == "bye":
                return
            self.send(self.answer(request))

    def take_layout(self) -> bool:
        values: List[int] = []
        gradients: List[Optional[int]] = []
        rows: List[Optional[int]] = []
        while True:
            packet = self.receive()
            if packet is None:
                return False
            values += packet["values"]
            gradients += packet["gradients"]
            rows += packet.get("rows", [])
            if not packet["more"]:
                break
        memory = mmap.mmap(MEMORY, packet["bytes"])

        def view(offset: int, shape: Sequence[int], dtype: Any = "float32") -> numpy.ndarray:
            count = math.prod(shape)
            return numpy.frombuffer(memory, dtype, count, offset).reshape(shape)

        variables = self.program.variables
        self.tables = [v for v, variable in enumerate(variables) if variable.table]
        shapes = [v.shape_of(rows[i] if v.table else None) for i, v in enumerate(variables)]
        self.values = [view(at, shape) for at, shape in zip(values, shapes)]
        self.gradients = [
            None if at is None else view(at, shape) for at, shape in zip(gradients, shapes)]
        batch = packet["batch"]
        self.outputs = [
            view(at, (batch, *output.shape))
            for at, output in zip(packet["outputs"], self.program.outputs)]
        for kind in KINDS:
            self.columns[kind] = {
                column["name"]: view(column["offset"], (batch, *column["shape"]),
                                     column["dtype"])
                for column in packet[kind]}
        return True

    def batch(self, request: Dict[str, Any]) -> Batch:
        examples = request["examples"]
        if examples not in self.cut:
            self.cut[examples] = {
                kind: {name: column[:examples] for name, column in columns.items()}
                for kind, columns in self.columns.items()}
        columns = {kind: dict(found) for kind, found in self.cut[examples].items()}
        return Batch(examples=examples, key=request.get("key", 0), **columns)

    def rows(self, request: Dict[str, Any], arrays: List[Any]) -> List[Any]:
        """The arrays with those rows of tables that the batch reads."""
        if not self.tables or self.program.all_rows:
            return arrays
        arrays = list(arrays)
        for v, rows in zip(self.tables, request["rows"]):
            arrays[v] = arrays[v][:rows]
        return arrays

    def answer(self, request: Dict[str, Any]) -> Dict[str, Any]:
        batch = self.batch(request)
        try:
            values = self.rows(request, self.values)
            if request["do"] == "gradients":
                if self.tables and not self.checked:
                    check_batch(self.program, values, batch)
                    self.checked = True
                loss = loss_of(self.program.gradients(
                    values, batch, self.rows(request, self.gradients),
                    lambda v: self.send({"gradient": v})))
                return {"loss": _number(loss)}
            if request["do"] == "evaluate":
                loss = loss_of(self.program.evaluate(values, batch))
                return {"sums": [[_number(loss * batch.examples), batch.examples]]}
            if request["do"] == "predict":
                store_outputs(self.program.outputs, self.program.predict(values, batch),
                              batch.examples, self.outputs)
                return {"done": True}
            return _error(f"a worker asks for {request['do']!r}, which this paracord lacks")
        except (BrokenPipeError, ConnectionError):
            raise
        except ProgramError as error:
            return _error(str(error))
        except Exception as error:  # of the user's code: it is the batch's until shown otherwise
            traceback.print_exc()
            return _error(f"{type(error).__name__}: {error} (the batch has {batch.describe()})")


def _initial(shapes: Sequence[Sequence[int]]) -> List[numpy.ndarray]:
    """Values to try a program with; a cluster draws those of the initializers."""
    random = numpy.random.default_rng(0)
    return [random.uniform(-0.05, 0.05, shape).astype(numpy.float32) for shape in shapes]


def _columns_of(program: Program, data: Mapping[str, Mapping[str, Any]]
                ) -> Dict[str, Dict[str, numpy.ndarray]]:
    """A batch that somebody gave, of the types that a worker gives them."""
    wrong = not isinstance(data, Mapping) or any(
        kind not in KINDS or not isinstance(columns, Mapping) for kind, columns in data.items())
    if wrong or not data.get("inputs"):
        raise ProgramError('serve\'s data must be a batch\'s columns by their names ("" where '
                           'there is one), {"inputs": {"": array}, "targets": {"": array}}')
    tables = [variable.table for variable in program.variables if variable.table]

    def dtype(kind: str, name: str) -> str:
        ids = kind == "inputs" and any(name in table.columns for table in tables)
        return program.dtypes.get(kind, {}).get(name, "int64" if ids else "float32")

    columns = {kind: {name: numpy.asarray(column, dtype(kind, name))
                      for name, column in data.get(kind, {}).items()} for kind in KINDS}
    lengths = {f"{name!r} of {kind}": len(column) if column.ndim else 0
               for kind, found in columns.items() for name, column in found.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ProgramError("serve's data has columns of "
                           + ", ".join(f"{n} examples ({name})" for name, n in lengths.items())
                           + ": give as many of each, one at least")
    return columns


def _try_alone(program: Program, data: Optional[Mapping[str, Mapping[str, Any]]]) -> None:
    program.hello()
    numbers = sum(math.prod(v.shape) for v in program.variables)
    print(f"paracord: {len(program.variables)} variables, {numbers} numbers")
    for variable in program.variables:
        what = f"moving average of {variable.moving_average:g}" if variable.moving_average \
            else "assigned" if variable.assigned else "not trained" if not variable.trainable \
            else f"trained, rows by {', '.join(variable.table.columns)}" if variable.table \
            else "trained"
        print(f"  {variable.name} {tuple(variable.shape)} {what}")
    if data is None:
        print("paracord: no batch was tried: give serve(program, data=...) one, or run "
              "`paracord validate --batch JOB`")
        return
    columns = _columns_of(program, data)
    examples = len(next(iter(columns["inputs"].values())))
    batch = Batch(examples, columns["inputs"], columns["targets"], columns["weights"])
    shapes = number_ids(program, columns["inputs"])
    values = _initial(shapes)
    gradients = [numpy.full(shape, numpy.nan, numpy.float32) if v.has_gradient else None
                 for v, shape in zip(program.variables, shapes)]
    program.attach(values)
    if any(variable.table for variable in program.variables):
        check_batch(program, values, batch)
    begin = time.perf_counter()
    loss = loss_of(program.gradients(values, batch, gradients, lambda v: None))
    took = time.perf_counter() - begin
    for variable, gradient in zip(program.variables, gradients):
        if gradient is not None and not numpy.isfinite(gradient).all():
            raise ProgramError(f"the gradient of {variable.name} is not finite, or not written")
    if program.outputs:
        store_outputs(program.outputs, program.predict(values, batch), examples,
                      [numpy.empty((examples, *o.shape), "f4") for o in program.outputs])
    print(f"paracord: a batch of {examples} examples has the loss {loss:.6g}, in "
          f"{took * 1000:.2f} ms")
