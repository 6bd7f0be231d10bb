#!/usr/bin/env python3
"""A running job moves from one ps to two (`paracord scale`) and back: how long training stands
still, and how much slower it is until then. The job is `rows` of versus/tensorflow (26 ids an
example, rows of 16, Adagrad, batch 256, 2 workers), with a table of so many rows. Beside it the
same by a restart with another `--ps`.

With `copies` as first argument: the first holder of half of the table is killed, in a job with
`copies` 1 and in one without; how long until the next batch is applied, and how many are computed
again.

With `hot`: synchronous training of a perceptron of 1 M parameters. A ps of three is killed, with
`copies` 1 and without; how long until the next round, and how many batches are computed again.
Then the samples a second of one worker on two ps, with `copies` 1 and without.

    cmake --preset release && cmake --build build/release
    python3 bench/moves.py [copies | hot] --bin build/release/bin [--rounds 3]
        [--rows 2000000,20000000]

Needs NumPy; 20,000,000 rows take 8 GB of memory and of disk.
"""
import argparse
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # the folder stays as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "versus" / "tensorflow"))
import jobs
import ours

STOP_GOAL, SLOWER_GOAL, KILL_GOAL = 1.0, 0.15, 1.0
HOT_GOAL, HOT_CALM_GOAL = 0.8, 0.75
HOT_JOB = dict(layers=[1024, 192], batch=64, optimizer="adam")
HOT_STEPS = 3000
CALM_SECONDS = 5
PARTITIONER = {"kind": "fixed_shards", "shards": 8}


class Progress:
    """Batches done over time, looked at by a thread."""

    def __init__(self, training):
        self.training, self.seen, self.ends = training, [], False
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.ends:
            status = self.training.status()
            if status:
                self.seen.append((time.monotonic(), status.get("batches_done", 0),
                                  status.get("move", {}).get("phase", "")))
            time.sleep(0.05)

    def rate(self, begin, end):
        """Batches a second between two moments; None if they are too near."""
        inside = [(t, batches) for t, batches, _ in self.seen if begin <= t <= end]
        if len(inside) < 3 or inside[-1][0] - inside[0][0] < 0.5:
            return None
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])

    def stop(self):
        self.ends = True
        self.thread.join()


def scale(training, ps, *more):
    """Moves the job, and returns the status of the move that ended."""
    done = subprocess.run([f"{training.bin_dir}/paracord", "scale", "--dir",
                           f"{training.folder.name}/dir", "--ps", str(ps), "--wait", *more],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return training.status()["move"]


def moves(bin_dir, rows):
    """Seconds without training of a move to two ps and of one back, and the rate before the stop
    of the first one beside that of a calm job."""
    job = dict(jobs.JOBS["rows"], rows=rows)
    with ours.Training(bin_dir, job, trace=False, ps=1, steps=10_000_000, partitioner=PARTITIONER,
                       checkpoint={"every_seconds": 3600}) as training:
        training.wait_for(lambda status: status.get("batches_done", 0) >= 50)
        progress = Progress(training)
        calm = time.monotonic()
        time.sleep(CALM_SECONDS)
        asked = time.monotonic()
        address = f"unix:{training.folder.name}/ps-1"
        fresh = subprocess.Popen([f"{bin_dir}/paracord-ps", "--task", "ps:1", "--listen", address,
                                  "--dir", f"{training.folder.name}/dir"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        more = scale(training, 2, "--ps-address", address)
        stopped = time.monotonic() - more["stopped_seconds"]
        time.sleep(1)
        fewer = scale(training, 1)
        progress.stop()
        before, beside = progress.rate(calm, asked), progress.rate(asked, stopped)
        fresh.wait(timeout=60)
        # The same by hand: the job is stopped, and begun again with two.
        begun = time.monotonic()
        training.process.send_signal(signal.SIGINT)
        training.process.wait(timeout=600)
        again = subprocess.Popen(training.process.args[:3] + ["--ps", "2"]
                                 + training.process.args[5:],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while training.status().get("phase") != "training":
            time.sleep(0.05)
        restart = time.monotonic() - begun
        again.send_signal(signal.SIGINT)
        again.wait(timeout=600)
        share = None if beside is None or not before else beside / before
        return more["stopped_seconds"], fewer["stopped_seconds"], more["seconds"], share, restart


def killed(bin_dir, rows, copies):
    """Seconds from the death of a ps to the next applied batch, and the batches that its partitions
    lost by it."""
    job = dict(jobs.JOBS["rows"], rows=rows)
    with ours.Training(bin_dir, job, trace=False, ps=2, steps=10_000_000, partitioner=PARTITIONER,
                       copies=copies,
                       checkpoint={"every_seconds": 5, "full_every": 20}) as training:
        def prepared(status):
            has = status.get("copies", {"with_both": 1, "partitions": 1})
            return (status.get("checkpoint", {}).get("count", 0) >= 3
                    and has["with_both"] == has["partitions"])
        training.wait_for(prepared)
        time.sleep(2)
        at, _ = training.kill("ps:1")
        before, seen = training.status(), []
        while len(seen) < 2 or seen[-1][1] <= seen[0][1]:  # the first one of the new generation
            status = training.status()
            if status and status["generation"] > before["generation"] \
                    and status["phase"] == "training":
                seen.append((time.monotonic(), status["applied_max"] + status["batches_done"]))
            time.sleep(0.01)
        status = training.status()
        return seen[-1][0] - at, max(before["applied_max"] - status["applied_min"], 0)


def kills(arguments):
    for rows in (int(rows) for rows in arguments.rows.split(",")):
        for copies in (1, 0):
            seen = [killed(arguments.bin, rows, copies) for _ in range(arguments.rounds)]
            seconds, lost = zip(*seen)
            goal = ""
            if copies:
                met = statistics.median(seconds) <= KILL_GOAL
                goal = f", goal {KILL_GOAL} s: {'met' if met else 'MISSED'}"
            print(f"{rows:>12,} rows on 2 ps, copies {copies}, a ps is killed: {text(seconds)} "
                  f"until the next batch{goal}; {text(lost, 'batches')} computed again",
                  flush=True)


def hot_killed(bin_dir, copies):
    """Seconds from the death of a ps to the next round, and the batches that are computed again."""
    with ours.Training(bin_dir, HOT_JOB, trace=False, ps=3, steps=HOT_STEPS, consistency="sync",
                       round_batches=2, copies=copies,
                       checkpoint={"every_seconds": 2}) as training:
        training.wait_for(lambda status: status.get("batches_done", 0) >= HOT_STEPS // 4)
        before = training.status()
        at, _ = training.kill("ps:1")
        seen = []
        while len(seen) < 2 or seen[-1][1] <= seen[0][1]:  # the first one of the new generation
            status = training.status()
            if status and status["generation"] > before["generation"] \
                    and status["phase"] == "training":
                seen.append((time.monotonic(), status["batches_done"]))
        summary = training.finish()
        return seen[-1][0] - at, max(summary["computed"] - summary["ledger"]["batches"], 0)


def hot_rate(bin_dir, copies):
    """Samples a second of one worker on two ps."""
    with ours.Training(bin_dir, HOT_JOB, trace=False, ps=2, workers=1, steps=HOT_STEPS,
                       consistency="sync", copies=copies,
                       checkpoint={"every_seconds": 3600}) as training:
        return training.finish()["samples_per_second"]


def hot(arguments):
    for copies in (1, 0):
        seconds, again = zip(*[hot_killed(arguments.bin, copies)
                               for _ in range(arguments.rounds)])
        goal = ""
        if copies:
            met = statistics.median(seconds) <= HOT_GOAL
            goal = f", goal {HOT_GOAL} s: {'met' if met else 'MISSED'}"
        print(f"sync on 3 ps, 2 workers, copies {copies}, a ps is killed: {text(seconds)} until "
              f"the next round{goal}; {text(again, 'batches')} computed again", flush=True)
    pairs = [(hot_rate(arguments.bin, 1), hot_rate(arguments.bin, 0))
             for _ in range(arguments.rounds)]
    ratios = [with_copies / without for with_copies, without in pairs]
    met = statistics.median(ratios) >= HOT_CALM_GOAL
    print(f"sync on 2 ps, 1 worker: {text([rate for rate, _ in pairs], 'samples/s')} with copies, "
          f"{text([rate for _, rate in pairs], 'samples/s')} without; {text(ratios, 'times')}, "
          f"goal {HOT_CALM_GOAL}: {'met' if met else 'MISSED'}", flush=True)


def text(values, unit="s"):
    known = [value for value in values if value is not None]
    if not known:
        return "not measured"
    return f"{statistics.median(known):.2f} {unit} ({min(known):.2f} to {max(known):.2f})"


def main():
    parser = argparse.ArgumentParser(prog="bench/moves.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["moves", "copies", "hot"], default="moves")
    parser.add_argument("--bin", default="build/release/bin", help="folder of our programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="2000000,20000000", metavar="N,...")
    arguments = parser.parse_args()
    print(f"$ bench/moves.py {shlex.join(sys.argv[1:])}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, "
          f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; 2 workers; median of "
          f"{arguments.rounds} (least to most)", flush=True)
    if arguments.what != "moves":
        {"copies": kills, "hot": hot}[arguments.what](arguments)
        return
    for rows in (int(rows) for rows in arguments.rows.split(",")):
        seen = [moves(arguments.bin, rows) for _ in range(arguments.rounds)]
        more, fewer, seconds, shares, restarts = zip(*seen)
        slower = [None if share is None else 1 - share for share in shares]
        met = statistics.median(more) <= STOP_GOAL
        print(f"{rows:>12,} rows, 1 to 2 ps: training stands still for {text(more)}, goal "
              f"{STOP_GOAL} s: {'met' if met else 'MISSED'}; the move takes {text(seconds)}, and "
              f"training is slower by {text(slower, 'of 1')} until then, goal {SLOWER_GOAL}")
        print(f"{rows:>12,} rows, 2 to 1 ps: training stands still for {text(fewer)}; stopped and "
              f"begun again with two ps: {text(restarts)}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
