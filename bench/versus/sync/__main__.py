#!/usr/bin/env python3
"""Synchronous training of workers that hold the variables, beside the strategies of its peers.

    pip install tensorflow-cpu==2.21.0; apt install python3-torch
    cmake --preset release && cmake --build build/release
    python bench/versus/sync --bin build/release/bin [--rounds 3] [--only mlp64,cnn64,memory]
           [--tensorflow PYTHON] [--torch PYTHON]

Two workers of one thread each on this machine train one model, 64 examples a worker in each step,
with Adam and the batches in memory; all sides take turns. The peers are MultiWorkerMirroredStrategy
of TensorFlow (its ring of gRPC), and DistributedDataParallel of PyTorch on gloo, each with one
thread for its operations, and they stop their clocks at a loss. Ours is `paracord train --ps 0`.

rows:
  mlp64, cnn64   samples a second of both workers, after the first tenth of the steps
  all_reduce     from a gradient in memory to what all workers have from it: ours is
                 bench_all_reduce (which applies SGD to the sum), gloo's is torch.distributed's
                 all_reduce of float32, in milliseconds; 2 and 4 workers
  memory         resident, the larger worker at the end of mlp64
"""
import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True  # the folder stays as it is
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tensorflow"))
import jobs
import machine
import ours

WORKERS = 2
STEPS = {"mlp64": 3000, "cnn64": 400}
ROWS = ("mlp64", "cnn64", "all_reduce", "memory")
SIZES = {"64 KB": 65_536, "1 MB": 1_048_576, "16 MB": 16_777_216, "64 MB": 67_108_864}
# Least ratios of ours to each peer.
GOALS = {"mlp64": {"TensorFlow": 3, "PyTorch": 3}, "cnn64": {"TensorFlow": 1.5, "PyTorch": 2}}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Peer:
    """Workers of a peer, which print one JSON object each; their interpreter has the peer."""

    def __init__(self, name, python, script):
        self.name, self.python, self.script = name, python, str(HERE / script)

    def run(self, what, workers=WORKERS, **config):
        config = dict(config, what=what,
                      workers=[f"127.0.0.1:{free_port()}" for _ in range(workers)])
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1",
                           OPENBLAS_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                           TF_CPP_MIN_LOG_LEVEL="3",
                           PYTHONPATH=os.pathsep.join((str(HERE), str(HERE.parent / "tensorflow"))))
        processes = [subprocess.Popen(
            [self.python, "-B", self.script, str(index), json.dumps(config)], env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for index in range(workers)]
        said = [process.communicate(timeout=900) for process in processes]
        for process, (_, errors) in zip(processes, said):
            if process.returncode != 0:
                raise SystemExit(f"{self.name}: {errors[-3000:]}")
        return [json.loads(out.splitlines()[-1]) for out, _ in said]

    def train(self, name):
        said = self.run(name, job=jobs.JOBS[name], steps=STEPS[name])
        return {"samples/s": sum(each["samples_per_second"] for each in said),
                "MB": max(each["mb"] for each in said)}


class Ours:
    name = "Paracord"

    def __init__(self, folder):
        self.folder = folder

    def train(self, name):
        with ours.Training(self.folder, jobs.JOBS[name], trace=False, ps=0, workers=WORKERS,
                           steps=STEPS[name] * WORKERS, threads=1, round_batches=WORKERS,
                           consistency="sync", strategy="multi_worker_mirrored") as training:
            most = {}
            while training.process.poll() is None:
                try:
                    for pid in training.children().values():
                        machine.most(most, "", pid)
                except (FileNotFoundError, ProcessLookupError):
                    pass
                try:
                    training.process.wait(0.2)
                except subprocess.TimeoutExpired:
                    pass
            return {"samples/s": training.finish()["samples_per_second"], "MB": most.get("", 0)}

    def all_reduce(self, workers):
        done = subprocess.run([f"{self.folder}/bench_all_reduce", "--json", "--workers",
                               str(workers)], capture_output=True, text=True, check=True)
        results = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
        return {result["name"]: result["value"] for result in results}


def median_and_range(values, digits):
    middle = f"{statistics.median(values):,.{digits}f}"
    return f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def say_ratio(text, ratio, goal):
    verdict = "" if goal is None else f", goal {goal}x: {'met' if ratio >= goal else 'MISSED'}"
    print(f"  {text}: {ratio:.2f}x{verdict}", flush=True)


def rates(sides, names, rounds, memory):
    for name in names:
        results = {side.name: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                results[side.name].append(side.train(name))
        print(f"{name}, {WORKERS} workers of one thread, samples/s")
        middle = {}
        for side, runs in results.items():
            values = [run["samples/s"] for run in runs]
            middle[side] = statistics.median(values)
            print(f"  {side}: {median_and_range(values, 0)}")
        for side in list(results)[1:]:
            say_ratio(f"beside {side}", middle[sides[0].name] / middle[side],
                      GOALS[name].get(side))
        if name == "mlp64" and memory:
            most = {side: max(run["MB"] for run in runs) for side, runs in results.items()}
            print("memory of the larger worker: "
                  + ", ".join(f"{side} {mb:,.0f} MB" for side, mb in most.items()))
            if "TensorFlow" in most:
                say_ratio("TensorFlow's beside ours", most["TensorFlow"] / most[sides[0].name], 4)


def all_reduce(mine, gloo, rounds):
    for workers in (2, 4):
        here, there = [], []
        for _ in range(rounds):
            here.append(mine.all_reduce(workers))
            there.append(gloo.run("all_reduce", workers=workers, sizes=SIZES)[0])
        for size in SIZES:
            name = f"all_reduce_{workers}_{re.sub(' ', '', size)}"
            a = [run[name] for run in here]
            b = [run[size] for run in there]
            print(f"all-reduce of {size}, {workers} workers, ms: Paracord "
                  f"{median_and_range(a, 2)}, gloo {median_and_range(b, 2)}")
            say_ratio("beside gloo", statistics.median(b) / statistics.median(a),
                      1.5 if size == "16 MB" else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", help="folder of our programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(ROWS), metavar="ROW,...")
    parser.add_argument("--tensorflow", default=sys.executable, metavar="PYTHON",
                        help="an interpreter that has TensorFlow; empty: without it")
    parser.add_argument("--torch", default="/usr/bin/python3", metavar="PYTHON",
                        help="an interpreter that has PyTorch; empty: without it")
    arguments = parser.parse_args()
    only = arguments.only.split(",")
    for name in only:
        if name not in ROWS:
            parser.error(f"there is no row {name}; there are {', '.join(ROWS)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; medians (least to "
          f"most) of {arguments.rounds}", flush=True)
    mine = Ours(arguments.bin)
    torch = Peer("PyTorch", arguments.torch, "torch_worker.py")
    sides = [mine]
    if arguments.tensorflow:
        sides.append(Peer("TensorFlow", arguments.tensorflow, "tensorflow_worker.py"))
    if arguments.torch:
        sides.append(torch)
    rates(sides, [name for name in ("mlp64", "cnn64") if name in only], arguments.rounds,
          "memory" in only)
    if "all_reduce" in only and arguments.torch:
        all_reduce(mine, torch, arguments.rounds)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
