"""A worker in NumPy, written from docs/wire.md alone: one Dense layer, mean absolute error.
python_worker.py COORDINATOR TASK, with what protoc --python_out makes of paracord.proto on its path
"""

import json
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, wait

import grpc
import numpy as np
from proto import paracord_pb2 as pb
from proto import variables_pb2 as variables

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
            if tries == 2 or error.code().name == "OUT_OF_RANGE":
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
            self.facts.variables.add(name=f"{name}/{variable}", shape=shape,
                                     dtype=variables.FLOAT32, trainable=True,
                                     initializer=variables.Initializer(name="zeros"))

    def gradients(self, values, first, end):
        error = self.x[first:end] @ values[0] + values[1] - self.y[first:end]
        slope = np.sign(error) / error.size
        return [self.x[first:end].T @ slope, slope.sum(axis=0)]


class Session:
    def __init__(self, coordinator, layer, session):
        self.coordinator, self.layer, self.session = coordinator, layer, session
        self.ps = [grpc.insecure_channel(ps.address, OPTIONS) for ps in session.ps]
        self.values = [np.zeros(v.shape, np.float32) for v in layer.facts.variables]
        self.state, self.waits = None, False  # of the values; whether a ps has not come to it yet
        self.leases, self.newest = {}, 0      # [lease, its next batch] by id
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

    def exchange(self, state, batch=None, gradients=None, **proofs):
        """Pushes a batch, or rejects it if it has no gradients, and pulls all values of a state."""
        calls = [self.pool.submit(self.exchange_with, i, state, batch, gradients, proofs)
                 for i in range(len(self.ps))]
        wait(calls)  # so that none of them writes values after the next one
        replies = [each.result() for each in calls]
        self.waits = any(reply.waits for reply in replies)
        self.state = None if self.waits else state  # who waits may have some values of each
        states = [s for reply in replies for s in reply.partitions]
        return (min((s.next for s in states), default=0),
                any(s.outcome == pb.PUSH_GAP for s in states))

    def exchange_with(self, i, state, batch, gradients, proofs):
        fence = pb.Fence(run_id=self.session.run_id, generation=self.session.generation,
                         boot_id=self.session.ps[i].boot_id, protocol=13)
        head = pb.ExchangeRequest(fence=fence, worker=sys.argv[2], batch=batch, **proofs,
                                  rejected=batch is not None and gradients is None)
        if self.session.plan.lanes:
            head.state, head.wait_ms = state, 100
        sync, pieces = self.layer.job["consistency"] == "sync", []
        ours = {p.id: p for p in self.session.partitions if p.ps == i or sync and i in p.copies}
        for p in ours.values():
            head.pull.add(partition=p.id, state_only=p.ps != i)
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
        return reply

    def state_for(self, lease, n):
        """Which state batch n of a lane needs. Without lanes any values do, once they are there."""
        plan, rounds = self.session.plan, self.layer.job["consistency"]
        behind = min(n, rounds["staleness"]) if isinstance(rounds, dict) else 0
        return lease.epoch * plan.split_batches + n - behind if plan.lanes else 0

    def gradients(self, lease, n):
        plan = self.session.plan
        if plan.lanes:
            number = n * plan.lanes + lease.split
        else:
            number = lease.split * plan.split_batches + n
        first, end = number * plan.batch, min((number + 1) * plan.batch, plan.records)
        gradients = self.layer.gradients(self.values, first, end)
        if self.layer.job["consistency"] != "sync" or end - first == plan.batch:
            return gradients
        return [gradient * np.float32((end - first) / plan.batch) for gradient in gradients]

    def step(self):
        """Pulls for the batch that is furthest behind, unless its values are there; computes and
        pushes it, unless a ps has not come to their state. Returns what there is to report."""
        held = min(self.leases.values(), key=lambda held: (held[0].epoch, held[1], held[0].split))
        lease, n = held
        report = pb.LeaseReport(lease=lease.id, next=n)
        try:
            if self.state != self.state_for(lease, n):
                self.exchange(self.state_for(lease, n))
            if self.waits:
                return []
            proofs, gradients = {"proof": lease.proof}, None
            if n in lease.rejected:
                proofs["rejection"] = lease.rejections[list(lease.rejected).index(n)]
            else:
                gradients = self.gradients(lease, n)
            held[1] = n + 1
            wanted = min(self.state_for(*one) for one in self.leases.values())
            batch = pb.BatchId(epoch=lease.epoch, split=lease.split, batch=n)
            report.next, gap = self.exchange(wanted, batch, gradients, **proofs)
            report.problem = pb.PROBLEM_GAP if gap else pb.PROBLEM_NONE
        except grpc.RpcError as error:
            outrun = (error.code() == grpc.StatusCode.OUT_OF_RANGE and
                      "the values of state" in error.details())
            self.state, report.message = None, error.details()
            report.problem = pb.PROBLEM_GAP if outrun else pb.PROBLEM_UNREACHABLE
        held[1] = report.next
        report.ended = report.next >= lease.end_batch or report.problem != pb.PROBLEM_NONE
        if report.ended:
            del self.leases[lease.id]
        return [report] if report.ended or self.session.plan.lanes else []

    def take(self, reply):
        if reply.HasField("leave"):
            sys.exit(reply.leave.exit_code)
        for lease in [*([reply.lease] if reply.HasField("lease") else []), *reply.lanes]:
            if lease.id in self.leases:  # a lane that goes on
                held = self.leases[lease.id]
                held[0].end_batch = max(held[0].end_batch, lease.end_batch)
            elif lease.id > self.newest:
                self.leases[lease.id], self.newest = [lease, lease.first_batch], lease.id

    def run(self):
        reports, asked = [], None  # asked: a question for a lease, under way while a pull waits
        while not self.over.is_set():
            if asked is None and (self.session.plan.lanes or not self.leases):
                wants = not self.leases or self.waits
                asked = self.work(want_task=wants, leases=reports, holds=list(self.leases))
                reports = []
            if asked is not None and (asked.done() or not (self.leases and wants)):
                self.take(asked.result())
                asked = None
            if self.leases:
                reports += self.step()


def main(model=Layer):
    coordinator, layer = grpc.insecure_channel(sys.argv[1], OPTIONS), None
    join = pb.JoinRequest(task=sys.argv[2], boot_id=uuid.uuid4().hex, protocol=13, device="numpy")
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
