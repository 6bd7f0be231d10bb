"""Paracord's side of each row: `paracord train`, and what is done to its processes. When a step was
done is read from the trace that it writes."""
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

import jobs
import machine


class Training:
    """`paracord train`, in a folder of its own."""

    def __init__(self, bin_dir, job, trace=True, ps=2, workers=2, **settings):
        self.bin_dir = bin_dir
        self.folder = tempfile.TemporaryDirectory()
        d = self.folder.name
        if "mnist" in job:
            files, scale = job["mnist"], 1 / 255
            data = {name: {"format": "idx", "features": x, "labels": y, "scale": scale}
                    for name, x, y in (("train", *files[:2]), ("test", *files[2:]))}
        else:
            jobs.write_data(job, d)
            data = {"train": {"format": "npy", "features": "x.npy", "labels": "y.npy"}}
        spec = {"name": "versus", "model": jobs.keras_model(job), "data": data,
                "batch": job["batch"],
                "loss": {"name": "sparse_categorical_crossentropy", "from_logits": True},
                "optimizer": {"name": job["optimizer"]},
                "partitioner": {"kind": "min_size", "min_shard_bytes": 262144, "max_shards": 2}}
        spec.update(settings)
        with open(f"{d}/job.json", "w", encoding="utf-8") as f:
            json.dump(spec, f)
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [f"{bin_dir}/paracord", "train", f"{d}/job.json", "--ps", str(ps), "--workers",
             str(workers), "--dir", f"{d}/dir", "--device", "cpu"]
            + ["--trace", f"{d}/trace"] * trace,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self):
        out, _ = self.process.communicate(timeout=600)
        if self.process.returncode != 0:
            raise SystemExit(out)
        self.end = time.monotonic()
        with open(f"{self.folder.name}/dir/summary.json", encoding="utf-8") as f:
            return json.load(f)

    def children(self):
        """Process ids by task, such as "worker:1"."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
            pids = f.read().split()
        found = {}
        for child in pids:
            try:
                with open(f"/proc/{child}/cmdline", encoding="utf-8") as f:
                    words = f.read().split("\0")
            except OSError:
                continue
            if "--task" in words:
                found[words[words.index("--task") + 1]] = int(child)
        return found

    def status(self):
        """As the coordinator tells it; empty while there is none."""
        done = subprocess.run([f"{self.bin_dir}/paracord", "status", "--json", "--dir",
                               f"{self.folder.name}/dir"], capture_output=True, text=True)
        try:
            return json.loads(done.stdout) if done.returncode == 0 else {}
        except ValueError:
            return {}

    def wait_for(self, enough):
        """Until the status is enough; the status, and when it was asked for."""
        while self.process.poll() is None:
            asked, status = time.monotonic(), self.status()
            if status and enough(status):
                return status, asked
            time.sleep(0.02)
        raise SystemExit("paracord train ended early: " + self.process.stdout.read())

    def kill(self, task):
        """When, by the clock of the trace; and the process."""
        pid = self.children()[task]
        os.kill(pid, signal.SIGKILL)
        return time.monotonic(), pid

    def spans(self):
        """What the trace has, in seconds: (task, process, name, begin, end)."""
        with open(f"{self.folder.name}/trace", encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        tasks = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        return [(tasks[e["pid"]], e["pid"], e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6)
                for e in events if e["ph"] == "X"]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()


class Side:
    """One method a row; each returns its results by name."""
    name = "Paracord"

    def __init__(self, bin_dir, data):
        self.bin_dir, self.data = bin_dir, data

    def train(self, job, **settings):
        return Training(self.bin_dir, job, **settings)

    def rate(self, name):
        job = jobs.JOBS[name]
        with self.train(job, trace=False, steps=job["steps"]) as training:
            return {name: training.finish()["samples_per_second"]}

    def wire(self, _):
        """bench_wire: the client and the ps that workers use, in two processes."""
        done = subprocess.run([f"{self.bin_dir}/bench_wire", "--mb-max", "64", "--rounds", "7",
                               "--json"], capture_output=True, text=True, check=True)
        values = {r["name"]: r["value"] for r in map(json.loads, done.stdout.splitlines())}
        results = {}
        for label in jobs.WIRE:
            size = label.replace(" ", "")
            for way, name in (("pull", "pull"), ("push", "push_sgd")):
                for link, suffix in (("", "_shared"), (" by TCP", "")):
                    value = values[f"{name}_{size}{suffix}"]
                    results[f"{way} {label}{link}"] = value / 1e3 if label == "4 KB" else value
        return results

    def start(self, _):
        with self.train(jobs.JOBS["mlp64"], steps=200) as training:
            training.finish()
            first = min(end for _, _, name, _, end in training.spans() if name == "apply")
            return {"start": first - training.begin}

    def accuracy(self, _):
        job = dict(jobs.JOBS["cnn64"], mnist=jobs.mnist_files(self.data))
        stop = {"metric": "accuracy", "at_least": jobs.ACCURACY}
        with self.train(job, trace=False, epochs=jobs.EPOCHS_MAX, metrics=["accuracy"],
                        evaluate={"every_epochs": 1}, stop_when=stop) as training:
            summary = training.finish()
            if summary["evaluations"][-1]["metrics"]["accuracy"] < jobs.ACCURACY:
                return {"accuracy": f"not within {jobs.EPOCHS_MAX} epochs"}
            return {"accuracy": training.end - training.begin,
                    "epochs": len(summary["evaluations"])}

    def memory(self, _):
        results = self.idle_memory()
        for name in ("mlp64", "large"):
            with self.train(jobs.JOBS[name], trace=False, steps=1_000_000) as training:
                training.wait_for(lambda status: status["applied_min"] >= 150)
                for task, pid in training.children().items():
                    machine.most(results, f"{task.split(':')[0]} {name}", pid)
        return results

    def idle_memory(self):
        """A ps and a worker that wait for a coordinator which is not there."""
        with tempfile.TemporaryDirectory() as d:
            cluster = {"chief": [f"unix:{d}/c"], "ps": [f"unix:{d}/p0", f"unix:{d}/p1"],
                       "worker": [f"unix:{d}/w0", f"unix:{d}/w1"]}
            environment = dict(os.environ, TF_CONFIG=json.dumps({"cluster": cluster}))
            daemons = {role: subprocess.Popen(
                [f"{self.bin_dir}/paracord-{role}", "--task", f"{role}:0", "--dir", d],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for role in ("ps", "worker")}
            time.sleep(2)
            results = {}
            for role, daemon in daemons.items():
                machine.most(results, f"{role} idle", daemon.pid)
            for daemon in daemons.values():
                daemon.kill()
                daemon.wait()
        return results

    def kills(self, _):
        with self.train(jobs.JOBS["mlp64"], steps=jobs.KILLS_STEPS) as training:
            training.wait_for(lambda status: status["applied_min"] > 300)
            killed = []
            for k in range(jobs.KILLS):
                task = f"worker:{k % 2}"
                killed.append((task, *training.kill(task)))
                time.sleep(jobs.KILLS_PAUSE)
            summary = training.finish()
            ends = [(task, pid, end) for task, pid, name, _, end in training.spans()
                    if name == "push"]
        away = [min(end for of, pid, end in ends if of == task and pid != dead and end > at) - at
                for task, at, dead in killed]
        ledger = summary["ledger"]
        return {"doubled": ledger["applied_max"] - ledger["batches"],
                "away": statistics.median(away), "away longest": max(away)}

    def ps_kill(self, _):
        with self.train(jobs.JOBS["mlp64"], steps=jobs.FAULT_STEPS,
                        checkpoint={"every_seconds": jobs.CHECKPOINT_SECONDS}) as training:
            training.wait_for(lambda status: status["checkpoint"]["last"]
                              and status["applied_min"] > jobs.FAULT_STEPS // 4)
            before = training.wait_for(lambda _: True)[0]["applied_max"]
            at, dead = training.kill("ps:1")
            _, whole = training.wait_for(lambda status: status["applied_min"] > before)
            ledger = training.finish()["ledger"]
            back = min(end for task, pid, name, _, end in training.spans()
                       if task == "ps:1" and pid != dead and name == "apply")
            return {"ps back": back - at, "ps whole": whole - at,
                    "ps lost": ledger["batches"] - ledger["applied_min"]}

    def coordinator_kill(self, _):
        with self.train(jobs.JOBS["mlp64"], steps=jobs.FAULT_STEPS) as training:
            training.wait_for(lambda status: status["applied_min"] > jobs.FAULT_STEPS // 4)
            at, dead = training.kill("coordinator:0")
            ledger = training.finish()["ledger"]
            spans = training.spans()
        again = min(begin for task, pid, _, begin, _ in spans
                    if task == "coordinator:0" and pid != dead)
        applied = sorted(end for _, _, name, _, end in spans if name == "apply" and end > at)
        # Workers finish their leases without it: the pause is the longest, not the first.
        pauses = [(b - a, b) for a, b in zip([at] + applied, applied) if a < again + 1]
        return {"coordinator lost": ledger["batches"] - ledger["applied_min"],
                "coordinator back": max(pauses)[1] - at}

    def checkpoint(self, _):
        with self.train(jobs.JOBS["large"], steps=jobs.CHECKPOINT_STEPS,
                        checkpoint={"every_seconds": 2}) as training:
            training.finish()
            spans = training.spans()
        begins = {}
        for task, _, name, begin, _ in spans:
            if name == "forward":
                begins.setdefault(task, []).append(begin)
        written = [(begin, end) for _, _, name, begin, end in spans if name == "snapshot"]
        steps = [step for times in begins.values() for step in machine.steps(times)[5:]]
        # The last checkpoint is taken when all is done.
        last = max(end for _, end in steps)
        return machine.beside(steps, [w for w in written if w[0] < last])
