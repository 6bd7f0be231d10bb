"""A worker of PyTorch: `torch_worker.py INDEX CONFIG` trains with DistributedDataParallel on gloo,
or measures gloo's all-reduce."""
import json
import statistics
import sys
import time

import jobs
import machine
import numpy as np
import torch
import torch.distributed as dist
from torch import nn


def model_of(job):
    if job.get("cnn"):
        return nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 32, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
    sizes = [784] + job["layers"]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def train(config, index):
    job, steps = config["job"], config["steps"]
    rng = np.random.default_rng(index)
    x = torch.from_numpy(rng.random((jobs.RECORDS, 784), dtype=np.float32))
    y = torch.from_numpy(rng.integers(0, 10, jobs.RECORDS).astype(np.int64))
    model = nn.parallel.DistributedDataParallel(model_of(job))
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    lossof = nn.CrossEntropyLoss()
    batches = jobs.RECORDS // job["batch"]
    for step in range(steps):
        if step == steps // 10:
            begin = time.monotonic()
        at = step % batches * job["batch"]
        optimizer.zero_grad(set_to_none=True)
        loss = lossof(model(x[at:at + job["batch"]]), y[at:at + job["batch"]])
        loss.backward()
        optimizer.step()
    loss.item()
    seconds = time.monotonic() - begin
    return {"samples_per_second": (steps - steps // 10) * job["batch"] / seconds,
            "mb": machine.memory_mb("self")[""]}


def all_reduce(config):
    results = {}
    for name, size in config["sizes"].items():
        tensor = torch.ones(size // 4)
        times = []
        for step in range(max(20, min(500, 200_000_000 // size))):
            dist.barrier()
            begin = time.monotonic()
            dist.all_reduce(tensor)
            times.append((time.monotonic() - begin) * 1e3)
            tensor.fill_(1)
        results[name] = statistics.median(times[3:])
    return results


def main():
    index, config = int(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    host = config["workers"][0]
    dist.init_process_group("gloo", init_method=f"tcp://{host}", rank=index,
                            world_size=len(config["workers"]))
    print(json.dumps(all_reduce(config) if config["what"] == "all_reduce"
                     else train(config, index)))


if __name__ == "__main__":
    main()
