"""A worker in NumPy, written from docs/wire.md alone: one Dense layer, mean absolute error.
python_worker.py COORDINATOR TASK, with what protoc --python_out makes of paracord.proto on its path
"""

import json
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
from proto import paracord_pb2 as pb

OPTIONS = [("grpc.max_reconnect_backoff_ms", 500)]


def call(channel, method, request, reply, seconds=5):
    stub = channel.unary_unary("/paracord.Coordinator/" + method, lambda m: m.SerializeToString(),
                               reply.FromString)
    return stub.future(request, timeout=seconds)


def exchange(channel, head, pieces):
    """Sends a request as parts, one for each piece, and reads the parts of the reply as one."""
    parts = [head, *(pb.ExchangeRequest(pieces=[piece]) for piece in pieces)]
    stub = channel.stream_stream("/paracord.ParameterServer/Exchange",
                                 lambda m: m.SerializeToString(), bytes)
    for tries in range(3):
        try:
            return pb.ExchangeReply.FromString(b"".join(stub(iter(parts), timeout=10)))
        except grpc.RpcError as error:
            if error.code().name in ("ABORTED", "FAILED_PRECONDITION"):
                raise ConnectionAbortedError(error.details()) from error
            if tries == 2:
                raise
            time.sleep(0.1)


class Layer:
    def __init__(self, reply):
        self.job = json.loads(reply.job_json)
        data = self.job["data"]["train"]
        self.x, self.y = np.load(data["features"]), np.load(data["labels"])
        self.facts = pb.JobFacts(records=len(self.x), fingerprint="npy, in order", job=reply.job,
                                 metric_names=["loss"])
        name = self.job["model"]["config"]["layers"][-1]["config"]["name"]
        inputs, units = self.x.shape[1:], self.y.shape[1:]
        for variable, shape in (("kernel", inputs + units), ("bias", units)):
            self.facts.variables.add(name=f"{name}/{variable}", shape=shape, dtype=pb.FLOAT32,
                                     initializer=pb.Initializer(name="zeros"), trainable=True)

    def gradients(self, values, first, end):
        error = self.x[first:end] @ values[0] + values[1] - self.y[first:end]
        slope = np.sign(error) / error.size
        return [self.x[first:end].T @ slope, slope.sum(axis=0)]


class Session:
    def __init__(self, coordinator, layer, session):
        self.coordinator, self.layer, self.session = coordinator, layer, session
        self.ps = [grpc.insecure_channel(ps.address, OPTIONS) for ps in session.ps]
        self.values = [np.zeros(v.shape, np.float32) for v in layer.facts.variables]
        self.pool, self.over = ThreadPoolExecutor(len(self.ps)), threading.Event()
        call(coordinator, "Hold", pb.WorkerHoldRequest(session=session.id), pb.WorkerHoldReply,
             86400).add_done_callback(lambda _: self.over.set())
        threading.Thread(target=self.beat, daemon=True).start()

    def work(self, **request):
        request = pb.WorkRequest(session=self.session.id, **request)
        return call(self.coordinator, "Work", request, pb.WorkReply)

    def beat(self):
        while not self.over.wait(self.layer.job["timeouts"]["worker_ms"] / 4000):
            self.work()

    def exchange(self, batch=None, gradients=None, proof=b""):
        """Pushes a batch, or rejects it if it has no gradients, and pulls all values."""
        states = sum(self.pool.map(lambda i: self.exchange_with(i, batch, gradients, proof),
                                   range(len(self.ps))), [])
        return min(s.next for s in states), any(s.outcome == pb.PUSH_GAP for s in states)

    def exchange_with(self, i, batch, gradients, proof):
        fence = pb.Fence(run_id=self.session.run_id, generation=self.session.generation,
                         boot_id=self.session.ps[i].boot_id, protocol=10)
        head = pb.ExchangeRequest(fence=fence, worker=sys.argv[2], batch=batch, proof=proof,
                                  rejected=batch is not None and gradients is None)
        ours, pieces = {p.id: p for p in self.session.partitions if p.ps == i}, []
        for p in ours.values():
            head.pull.add(partition=p.id)
            if gradients:
                rows = gradients[p.variable][p.row_begin:p.row_end].astype("<f4").tobytes()
                pieces.append(pb.Piece(partition=p.id, data=rows))
            if batch:
                head.push.add(partition=p.id, bytes=len(rows) if gradients else 0)
        reply = exchange(self.ps[i], head, pieces)
        for piece in reply.pieces:
            p = ours[piece.partition]
            to = self.values[p.variable][p.row_begin:p.row_end].reshape(-1).view(np.uint8)
            to[piece.offset:][:len(piece.data)] = np.frombuffer(piece.data, np.uint8)
        return list(reply.partitions)

    def train(self, lease):
        """Works a lease off and returns the report that ends it."""
        report = pb.LeaseReport(lease=lease.id, next=lease.first_batch, ended=True)
        plan = self.session.plan
        try:
            self.exchange()
            while report.next < lease.end_batch and report.problem == pb.PROBLEM_NONE:
                batch = pb.BatchId(epoch=lease.epoch, split=lease.split, batch=report.next)
                first = (lease.split * plan.split_batches + report.next) * plan.batch
                gradients = self.layer.gradients(self.values, first, first + plan.batch)
                rejected = report.next in lease.rejected
                report.next, gap = self.exchange(batch, None if rejected else gradients,
                                                 lease.proof)
                report.problem = pb.PROBLEM_GAP if gap else pb.PROBLEM_NONE
        except grpc.RpcError as error:
            report.problem, report.message = pb.PROBLEM_UNREACHABLE, error.details()
        return report

    def run(self):
        leases = []
        while not self.over.is_set():
            reply = self.work(want_task=True, leases=leases).result()
            if reply.HasField("leave"):
                sys.exit(reply.leave.exit_code)
            leases = [self.train(reply.lease)] if reply.HasField("lease") else []


def main(model=Layer):
    coordinator, layer = grpc.insecure_channel(sys.argv[1], OPTIONS), None
    join = pb.JoinRequest(task=sys.argv[2], boot_id=uuid.uuid4().hex, protocol=10, device="numpy")
    while True:
        try:
            reply = call(coordinator, "Join", join, pb.JoinReply).result()
            if reply.HasField("leave"):
                sys.exit(reply.leave.exit_code)
            if reply.HasField("job_json"):
                layer = model(reply)
                join.facts.CopyFrom(layer.facts)
            if reply.HasField("session"):
                join.run_id = reply.session.run_id
                Session(coordinator, layer, reply.session).run()
        except (grpc.RpcError, ConnectionAbortedError) as error:
            print("joins again:", error, flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
