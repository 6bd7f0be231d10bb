"""A worker that pushes what nobody leased to it, and then trains as python_worker.py does.
python_intruder.py COORDINATOR TASK, with what protoc --python_out makes of paracord.proto on its
path
"""

import grpc
import numpy as np
import python_worker
from proto import paracord_pb2 as pb

EPOCH = 90000


class Intruder(python_worker.Session):
    def run(self):
        """Pushes with no proof, with one made up, and with that of another batch, leased to it."""
        self.exchange(0)  # the ps have values
        while not self.leases:
            self.take(self.work(want_task=True, holds=[]).result())
        lease, batch = next(iter(self.leases.values()))
        rows = [np.full(v.shape, 123, np.float32) for v in self.layer.facts.variables]
        for epoch, split, proof in [(EPOCH, 3, b""), (EPOCH, 3, bytes(32)),
                                    (EPOCH, lease.split, lease.proof),
                                    (lease.epoch, lease.split + 1, lease.proof)]:
            for ps in range(len(self.ps)):
                self.push(ps, pb.BatchId(epoch=epoch, split=split, batch=0), rows, proof)
        super().run()

    def push(self, ps, batch, rows, proof):
        try:
            self.exchange_with(ps, 0, batch, rows, {"proof": proof})
            print(f"ps:{ps} has taken {batch}", flush=True)
        except grpc.RpcError as error:
            print(f"ps:{ps} refuses with {error.code().name}: {error.details()}", flush=True)


python_worker.Session = Intruder

if __name__ == "__main__":
    python_worker.main()
