#!/usr/bin/env python3
"""What a job costs whose table of rows is larger: the job `rows` of versus/tensorflow (26 ids an
example, rows of 16, Adagrad, batch 256, 2 ps, 2 workers), with tables of several sizes, in turns.

    cmake --preset release && cmake --build build/release
    python3 bench/table_sizes.py --bin build/release/bin [--rounds 3] [--rows 20000,30000000]

For each size it prints the samples a second beside those of the smallest table, and the resident
memory of a worker and of a ps; of the largest also the longest time that a ps took to apply a push
while checkpoints were written. Needs NumPy; 50,000,000 rows take 7 GB of memory and of disk.
"""
import argparse
import os
import pathlib
import shlex
import statistics
import sys
import time

sys.dont_write_bytecode = True  # the folder stays as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "versus" / "tensorflow"))
import jobs
import machine
import ours

SAMPLES_GOAL, WORKER_MB_GOAL, PAUSE_MS_GOAL = 0.8, 120, 10
PAUSE_STEPS, PAUSE_SECONDS = 20_000, 10
PARTITIONER = {"kind": "max_size", "max_shard_bytes": 512 << 20}


def job_of(rows):
    return dict(jobs.JOBS["rows"], rows=rows)


def goal(met):
    return "met" if met else "MISSED"


def train(bin_dir, rows):
    """Samples a second, and the memory of a worker and of a ps in the middle of it."""
    job = job_of(rows)
    memory = {}
    with ours.Training(bin_dir, job, trace=False, steps=job["steps"],
                       partitioner=PARTITIONER, checkpoint={"every_seconds": 3600}) as training:
        training.wait_for(lambda status: status.get("applied_min", 0) >= job["steps"] // 3)
        for task, pid in training.children().items():
            machine.most(memory, task.split(":")[0], pid)
        return training.finish()["samples_per_second"], memory["worker"], memory["ps"]


def longest_push(bin_dir, rows):
    """The longest time that a ps took to apply a push, beside a checkpoint and without one, in
    seconds; and how many were taken."""
    with ours.Training(bin_dir, job_of(rows), steps=PAUSE_STEPS, partitioner=PARTITIONER,
                       checkpoint={"every_seconds": PAUSE_SECONDS, "keep": 1}) as training:
        training.finish()
        spans = training.spans()
    written = [(begin, end) for _, _, name, begin, end in spans if name == "snapshot"]
    longest = {True: 0.0, False: 0.0}
    for _, _, name, begin, end in spans:
        if name == "apply":
            beside = any(begin < w[1] and w[0] < end for w in written)
            longest[beside] = max(longest[beside], end - begin)
    return longest[True], longest[False], len(written)


def main():
    parser = argparse.ArgumentParser(prog="bench/table_sizes.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of our programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="20000,2000000,30000000,50000000", metavar="N,...")
    arguments = parser.parse_args()
    sizes = sorted(int(rows) for rows in arguments.rows.split(","))
    print(f"$ bench/table_sizes.py {shlex.join(sys.argv[1:])}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, "
          f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; 2 ps, 2 workers; median of "
          f"{arguments.rounds} (range)", flush=True)
    measured = {rows: [] for rows in sizes}
    for _ in range(arguments.rounds):
        for rows in sizes:
            measured[rows].append(train(arguments.bin, rows))
    smallest = statistics.median(rate for rate, _, _ in measured[sizes[0]])
    for rows in sizes:
        rates = [rate for rate, _, _ in measured[rows]]
        rate = statistics.median(rates)
        worker = max(memory for _, memory, _ in measured[rows])
        ps = max(memory for _, _, memory in measured[rows])
        print(f"{rows:>12,} rows: {rate:,.0f} samples/s ({min(rates):,.0f}-{max(rates):,.0f}), "
              f"{rate / smallest:.2f}x of the smallest, goal {SAMPLES_GOAL}x: "
              f"{goal(rate >= SAMPLES_GOAL * smallest)}; a worker {worker:.0f} MB, at most "
              f"{WORKER_MB_GOAL}: {goal(worker <= WORKER_MB_GOAL)}; a ps {ps:,.0f} MB")
    beside, without, count = longest_push(arguments.bin, sizes[-1])
    print(f"{sizes[-1]:>12,} rows: the longest push that a ps applied beside one of {count} "
          f"snapshots took {beside * 1e3:.1f} ms, at most {PAUSE_MS_GOAL}: "
          f"{goal(beside * 1e3 <= PAUSE_MS_GOAL)} (without one {without * 1e3:.1f} ms)")
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
