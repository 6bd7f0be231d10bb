#!/usr/bin/env python3
"""What synchronous rounds cost, and what they do about workers and ps that are slow, stop or die.

    cmake --preset release && cmake --build build/release
    python3 bench/rounds.py --bin build/release/bin [--rounds 3] [--only NAME,...] [--data DIR]

Ways of doing one thing take turns. Times of rounds are read from the trace of the job, in which
"apply" is what a ps does with a push: without a lane no ps applies anything, so a pause of all of
them is how long a round waited. Needs NumPy; `accuracy` needs Fashion-MNIST in DIR.
"""
import argparse
import math
import os
import pathlib
import shlex
import signal
import statistics
import sys
import threading
import time

sys.dont_write_bytecode = True  # the folder stays as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "versus" / "tensorflow"))
import jobs
import machine
import ours

SYNC = {"consistency": "sync"}
STEPS = {"mlp64": 4000, "cnn64": 700}
SLOW_S = 0.02  # a slow worker runs for a quarter of so many seconds, again and again


class Slowed:
    """A process that gets a quarter of the time."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.over.is_set():
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(SLOW_S * 3 / 4)
                os.kill(self.pid, signal.SIGCONT)
                time.sleep(SLOW_S / 4)
        except ProcessLookupError:
            pass

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Figures:
    def __init__(self, arguments):
        self.bin, self.data, self.turns = arguments.bin, arguments.data, arguments.rounds

    def train(self, name, **settings):
        return ours.Training(self.bin, jobs.JOBS[name], **settings)

    def rate(self, name, **settings):
        with self.train(name, trace=False, steps=STEPS[name], **settings) as training:
            return training.finish()["samples_per_second"]

    def turn(self, *ways):
        """The medians of some ways of doing one thing, which take turns."""
        measured = [[] for _ in ways]
        for _ in range(self.turns):
            for results, way in zip(measured, ways):
                results.append(way())
        return [statistics.median(results) for results in measured]

    def cost(self):
        for name in STEPS:
            a, s = self.turn(lambda: self.rate(name, ps=1),
                             lambda: self.rate(name, ps=1, round_batches=2, **SYNC))
            say(f"{name}: synchronous on 1 ps with 2 equal workers {s:,.0f} samples/s, "
                f"asynchronous {a:,.0f}", s / a, 0.9)

    def slowed_rate(self, tasks):
        """Samples a second, of the second half, with these workers four times slower."""
        with self.train("mlp64", trace=False, steps=4_000_000, ps=1, round_batches=4,
                        **SYNC) as training:
            training.wait_for(lambda status: status.get("applied_min", 0) > 200)
            children = training.children()
            slowed = [Slowed(children[task]) for task in tasks]
            for each in slowed:
                each.__enter__()
            time.sleep(8)  # the coordinator measures, and leases of lanes end
            first, at = training.wait_for(lambda _: True)
            time.sleep(8)
            last, then = training.wait_for(lambda _: True)
            for each in slowed:
                each.__exit__()
            return (last["applied_min"] - first["applied_min"]) * 64 / (then - at)

    def shares(self):
        one, both = self.turn(lambda: self.slowed_rate(["worker:1"]),
                              lambda: self.slowed_rate(["worker:0", "worker:1"]))
        say(f"one of two workers 4 times slower, R = 4: {one:,.0f} samples/s, and {both:,.0f} "
            "where both are, which is what even shares would give", one / both, 1.5)

    def pause(self, hurt, steps=6000, **settings):
        """The longest time in which no ps applied anything after something happened, and the usual
        one between two pushes, in seconds."""
        with self.train("mlp64", steps=steps, **settings, **SYNC) as training:
            training.wait_for(lambda status: status.get("applied_min", 0) > 300)
            at = hurt(training)
            training.finish()
            ends = sorted(end for _, _, name, _, end in training.spans() if name == "apply")
        gaps = [(b - a, b) for a, b in zip(ends, ends[1:])]
        return (max(gap for gap, end in gaps if at <= end <= at + 5),
                statistics.median(gap for gap, _ in gaps))

    def stops(self):
        def stop(training):
            pid, at = training.children()["worker:1"], time.monotonic()
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2)
            os.kill(pid, signal.SIGCONT)
            return at
        backup, none = self.turn(
            lambda: self.pause(stop, ps=1, round_batches=2, backup={"factor": 2})[0],
            lambda: self.pause(stop, ps=1, round_batches=2)[0])
        least(f"a worker stops for 2 s: longest pause with `backup` {backup * 1e3:.0f} ms, without "
              f"{none * 1e3:.0f} ms", backup, 0.3)

    def kills(self):
        def kill(task):
            return lambda training: training.kill(task)[0]
        alone, standby, ps = self.turn(
            lambda: self.pause(kill("worker:1"), ps=1, round_batches=2)[0],
            lambda: self.pause(kill("worker:1"), ps=1, workers=3, round_batches=2)[0],
            lambda: self.pause(kill("ps:1"), checkpoint={"every_seconds": 1}, round_batches=2)[0])
        least(f"a worker is killed: next round within {alone * 1e3:.0f} ms", alone, 0.7)
        least(f"with one that stands by: {standby * 1e3:.0f} ms", standby, 0.2)
        least(f"a ps is killed: next round within {ps * 1e3:.0f} ms", ps, 1.5)

    def cuts(self):
        often, never = self.turn(
            lambda: self.rate("mlp64", round_batches=2, checkpoint={"every_seconds": 1}, **SYNC),
            lambda: self.rate("mlp64", round_batches=2, checkpoint={"every_seconds": 3600}, **SYNC))
        slower = (1 - often / never) / 30
        least(f"a cut each second: {often:,.0f} samples/s, without {never:,.0f}; at one each 30 s "
              f"{slower * 100:.2f} % slower", slower, 0.01)

    def memory(self):
        job = dict(jobs.JOBS["large"], optimizer="adam")
        elements = sum(math.prod(shape) for shape in jobs.shapes(job))
        results = {}
        with ours.Training(self.bin, job, trace=False, steps=1_000_000, round_batches=4,
                           checkpoint={"every_seconds": 3600}, **SYNC) as training:
            training.wait_for(lambda status: status.get("applied_min", 0) >= 40)
            pids = training.children()
            total = sum(machine.memory_mb(pids[f"ps:{i}"])[" in shares"] for i in range(2))
        held = elements * 4 * 3 / 1e6
        least(f"two ps with {held:.0f} MB of values and slots (Adam), R = 4: {total:.0f} MB, "
              f"{total / held:.2f}x", total / held, 2.2)

    def accuracy(self):
        job = dict(jobs.JOBS["cnn64"], mnist=jobs.mnist_files(self.data))

        def best(**settings):
            with ours.Training(self.bin, job, trace=False, epochs=5, metrics=["accuracy"],
                               evaluate={"every_epochs": 1}, **settings) as training:
                return training.finish()["metrics"]["test"]["accuracy"]
        a = best()
        rates = {rate: best(round_batches=4, optimizer={"name": "adam", "learning_rate": rate},
                            **SYNC) for rate in (0.001, 0.002, 0.004)}
        rate = max(rates, key=rates.get)
        least(f"Fashion-MNIST CNN, 5 epochs: asynchronous {a:.4f}, synchronous with R = 4 "
              f"{rates[rate]:.4f} (rate {rate}; {rates})", a - rates[rate], 0.003)


def say(text, ratio, goal):
    print(f"{text}: {ratio:.2f}x, goal {goal}x: {'met' if ratio >= goal else 'MISSED'}", flush=True)


def least(text, value, goal):
    print(f"{text}; at most {goal:g}: {'met' if value <= goal else 'MISSED'}", flush=True)


FIGURES = ("cost", "shares", "stops", "kills", "cuts", "memory", "accuracy")


def main():
    parser = argparse.ArgumentParser(prog="bench/rounds.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of our programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(FIGURES), metavar="NAME,...")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", metavar="DIR")
    arguments = parser.parse_args()
    print(f"$ bench/rounds.py {shlex.join(sys.argv[1:])}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, "
          f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; medians of {arguments.rounds}",
          flush=True)
    figures = Figures(arguments)
    for name in arguments.only.split(","):
        getattr(figures, name)()
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
