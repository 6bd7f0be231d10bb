"""TensorFlow's side of each row: its processes, and what is done to them."""
import json
import os
import pathlib
import queue
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import jobs
import machine

CHIEF = str(pathlib.Path(__file__).with_name("chief.py"))
SECONDS_MAX = 600  # that anything is waited for


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """2 ps and 2 workers, or as many as are given, and a chief once it is started."""

    def __init__(self, job=None, ps=2, workers=2, tcmalloc="", **config):
        self.folder = tempfile.TemporaryDirectory()
        if job is not None and "mnist" not in job:
            jobs.write_data(job, self.folder.name)
        self.config = dict(config, job=job, folder=self.folder.name, cluster={
            "ps": [f"127.0.0.1:{free_port()}" for _ in range(ps)],
            "worker": [f"127.0.0.1:{free_port()}" for _ in range(workers)]})
        self.environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
        if tcmalloc:
            self.environment["LD_PRELOAD"] = tcmalloc
        self.begin = time.monotonic()
        self.processes = {}
        for role, addresses in self.config["cluster"].items():
            for index in range(len(addresses)):
                self.start(role, index)

    def start(self, role, index=0):
        process = subprocess.Popen(
            [sys.executable, "-B", CHIEF, role, str(index), json.dumps(self.config)],
            env=self.environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE if role == "chief" else subprocess.DEVNULL)
        self.processes[role, index] = process
        return process

    def start_chief(self):
        self.said = queue.Queue()
        chief, said = self.start("chief"), self.said

        def read():
            for line in chief.stdout:
                said.put(json.loads(line))
            said.put(None)
        threading.Thread(target=read, daemon=True).start()

    def hear(self, key, seconds=SECONDS_MAX):
        """The next thing that the chief says with this key in it, or an error; none in time."""
        end = time.monotonic() + seconds
        while True:
            try:
                said = self.said.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if said is None:
                raise SystemExit("TensorFlow's chief ended early")
            if key in said or "error" in said:
                return said

    def kill(self, role, index=0):
        """When, by the clock of the day."""
        process = self.processes[role, index]
        process.send_signal(signal.SIGKILL)
        at = time.time()
        process.wait()
        return at

    def listening(self):
        for addresses in self.config["cluster"].values():
            for address in addresses:
                host, port = address.split(":")
                while True:
                    with socket.socket() as s:
                        if s.connect_ex((host, int(port))) == 0:
                            break
                    time.sleep(0.05)

    def memory(self, results, state):
        for (role, _), process in self.processes.items():
            machine.most(results, f"{role} {state}", process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.folder.cleanup()


class Side:
    """One method a row; each returns its results by name."""
    name = "TensorFlow"

    def __init__(self, tcmalloc, data):
        self.tcmalloc, self.data = tcmalloc, data

    def cluster(self, job=None, **config):
        return Cluster(job, tcmalloc=self.tcmalloc, **config)

    def rate(self, name):
        with self.cluster(jobs.JOBS[name], what="rate") as cluster:
            cluster.start_chief()
            return {name: self.result(cluster, "rate")["rate"]}

    @staticmethod
    def result(cluster, key):
        said = cluster.hear(key)
        if said is None or "error" in said:
            raise SystemExit(f"TensorFlow did not finish: {said}")
        return said

    def wire(self, _):
        results = {}
        with self.cluster(what="wire", ps=1, workers=1) as cluster:
            cluster.start_chief()
            for label, (size, _) in jobs.WIRE.items():
                said = self.result(cluster, "size")
                for way in ("pull", "push"):
                    value = said[way] * 1e3 if label == "4 KB" else size / said[way] / 1e9
                    for link in ("", " by TCP"):
                        results[f"{way} {label}{link}"] = value
        return results

    def start(self, _):
        with self.cluster(jobs.JOBS["mlp64"], what="run", portion=50) as cluster:
            cluster.start_chief()
            self.result(cluster, "done")
            return {"start": time.monotonic() - cluster.begin}

    def accuracy(self, _):
        job = dict(jobs.JOBS["cnn64"], mnist=jobs.mnist_files(self.data))
        with self.cluster(job, what="accuracy") as cluster:
            cluster.start_chief()
            for epoch in range(1, jobs.EPOCHS_MAX + 1):
                if self.result(cluster, "epoch")["accuracy"] >= jobs.ACCURACY:
                    return {"accuracy": time.monotonic() - cluster.begin, "epochs": epoch}
        return {"accuracy": f"not within {jobs.EPOCHS_MAX} epochs"}

    def memory(self, _):
        results = {}
        for name in ("mlp64", "large"):
            with self.cluster(jobs.JOBS[name], what="run", portion=30) as cluster:
                cluster.listening()
                time.sleep(1)
                cluster.memory(results, "idle")
                cluster.start_chief()
                for _ in range(4):
                    self.result(cluster, "done")
                cluster.memory(results, name)
        return results

    def kills(self, _):
        ends, kills = [], []
        with self.cluster(jobs.JOBS["mlp64"], what="run", portion=100) as cluster:
            cluster.start_chief()

            def listen():
                ends.extend(self.result(cluster, "done")["ends"])
            for k in range(jobs.KILLS):
                for _ in range(2):  # until both work
                    listen()
                worker = k % 2
                kills.append((worker, cluster.kill("worker", worker)))
                cluster.start("worker", worker)
                limit = time.monotonic() + jobs.AWAY_MAX
                while max([t for w, t in ends if w == worker], default=0) < kills[-1][1] + 0.1:
                    if time.monotonic() > limit:
                        return {"doubled": f"worker not back in {jobs.AWAY_MAX} s after kill {k}"}
                    listen()
            cluster.processes["chief", 0].stdin.write("\n")
            cluster.processes["chief", 0].stdin.flush()
            end = self.result(cluster, "counted")
        away = [min(t for w, t in ends if w == worker and t > at + 0.1) - at
                for worker, at in kills]
        return {"doubled": end["counted"] - end["scheduled"],
                "away": statistics.median(away), "away longest": max(away)}

    def ps_kill(self, _):
        with self.cluster(jobs.JOBS["mlp64"], what="run", portion=100) as cluster:
            cluster.start_chief()
            for _ in range(4):
                self.result(cluster, "done")
            at = cluster.kill("ps", 1)
            cluster.start("ps", 1)  # as who looks after the processes would
            said = cluster.hear("error", jobs.AWAY_MAX)
            if said is None:
                return {"ps back": f"no error and no end in {jobs.AWAY_MAX} s"}
            return {"ps back": f"the job is over: {said['error']} after {said['at'] - at:.1f} s"}

    def coordinator_kill(self, _):
        with self.cluster(jobs.JOBS["mlp64"], what="run", portion=100) as cluster:
            cluster.start_chief()
            for _ in range(5):
                before = self.result(cluster, "done")["done"]
            at = cluster.kill("chief")
            cluster.start_chief()
            after = self.result(cluster, "before")["before"]
            first = self.result(cluster, "done")["ends"][0][1]
            return {"coordinator lost": before - after, "coordinator back": first - at}

    def checkpoint(self, _):
        job = dict(jobs.JOBS["large"], steps=jobs.CHECKPOINT_STEPS)
        with self.cluster(job, what="checkpoint") as cluster:
            cluster.start_chief()
            said = self.result(cluster, "stopped")
        ends = [[t for w, t in said["ends"] if w == worker] for worker in range(2)]
        steps = [step for times in ends for step in machine.steps(times)]
        return dict(machine.beside(steps, said["written"]), stopped=said["stopped"])
