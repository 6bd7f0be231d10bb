#!/usr/bin/env python3
"""Paracord beside TensorFlow's ParameterServerStrategy: the same model, data, batch and optimizer,
2 ps, 2 workers and a coordinator on this machine, in turns.

    pip install tensorflow-cpu==2.21.0
    cmake --preset release && cmake --build build/release
    python bench/versus/tensorflow --bin build/release/bin [--rounds 3] [--only mlp64,start]

TensorFlow is given its best known settings: a custom loop with ClusterCoordinator.schedule, data in
memory on each worker, in batches, its fused optimizer kernels on the ps, intra-op 1 and inter-op 2
threads a process, kernels spread over the ps, tcmalloc if it is installed. All numbers are measured
by this program; a side that cannot do something says so.

rows:
  mlp64, mlp256, cnn64, large, tiny   samples a second after warm-up (large: 20 M parameters, SGD,
                    batch 32; tiny: the smallest step, batch 1)
  rows              the same, of a model whose table of 2,000,000 rows is partitioned over the ps:
                    26 ids an example, rows of 16, Adagrad, batch 256. TensorFlow:
                    tf.nn.embedding_lookup, and its sparse Adagrad on each ps' part
  wire              pull and push (SGD applied) of one variable, 1 ps and 1 worker. TensorFlow: many
                    in one step, one after the other, without what an empty step takes. Ours:
                    bench_wire, through shared memory as workers on the ps' host do, and by TCP as
                    others do; one exchange at a time
  start             from the start of the processes to the first step that is applied
  accuracy          from the start of the processes to 90 % of Fashion-MNIST's test set, CNN, both
                    testing after each epoch
  memory            resident, the largest of a kind: waiting for a job, and training mlp64 and
                    large; and with its share alone of the pages that several processes have
  kills             12 times a worker is killed and started again at once, in turns: batches that
                    were applied more than once, and time until that worker's next step is applied
  ps_kill           a ps is killed and started again at once
  coordinator_kill  the coordinator is killed and started again at once
  checkpoint        80 MB, while large is trained: step beside the usual (median) step of a worker
"""
import argparse
import importlib.metadata
import os
import shlex
import statistics
import sys
import time

sys.dont_write_bytecode = True  # the folder stays as it is
import jobs
import ours
import theirs

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"


def more(key, text, unit, ratio=None):
    """A result of which more is better; the goal is a ratio to TensorFlow's."""
    return key, text, unit, True, ratio, None


def less(key, text, unit, ratio=None, at_most=None):
    """A result of which less is better; the goal is a ratio or a bound of ours."""
    return key, text, unit, False, ratio, at_most


def wire_results():
    goals = {"64 MB": 1.3, "16 MB": 1.5, "1 MB": 4, "4 KB": 4}
    for label in jobs.WIRE:
        kind, unit = (less, "ms") if label == "4 KB" else (more, "GB/s")
        for way in ("pull", "push"):
            for link, goal in (("", goals[label]), (" by TCP", None)):
                key = f"{way} {label}{link}"
                yield kind(key, key, unit, goal)


def memory_results():
    for state in ("idle", "mlp64", "large"):
        for role in ("ps", "worker"):
            key = f"{role} {state}"
            yield less(key, f"{role}, {state}", "MB", 10)
            yield less(f"{key} in shares", "  its share of shared pages", "MB")


ROWS = {
    **{name: ("rate", [more(name, name, "samples/s", goal)])
       for name, goal in (("mlp64", 4), ("mlp256", 2.5), ("cnn64", 1.6), ("large", 2),
                          ("tiny", 10), ("rows", 5))},
    "wire": ("wire", list(wire_results())),
    "start": ("start", [less("start", "start to first step", "s", 20)]),
    "accuracy": ("accuracy", [less("accuracy", "start to 90 % accuracy", "s", 2),
                              less("epochs", "  epochs until then", "")]),
    "memory": ("memory", list(memory_results())),
    "kills": ("kills", [
        less("doubled", f"{jobs.KILLS} workers killed: doubled", "batches", None, 0),
        less("away", "  worker away, median", "s"),
        less("away longest", "  longest", "s", None, 1)]),
    "ps_kill": ("ps_kill", [
        less("ps back", "ps killed: applies again", "s", None, 3),
        less("ps whole", f"  whole (checkpoint each {jobs.CHECKPOINT_SECONDS} s)", "s"),
        less("ps lost", "  batches lost", "batches", None, 0)]),
    "coordinator_kill": ("coordinator_kill", [
        less("coordinator lost", "coordinator killed: lost", "batches", None, 0),
        less("coordinator back", "  training goes on", "s")]),
    "checkpoint": ("checkpoint", [less("over", "longest step with one, over usual", "ms", None, 5),
                                  less("over without", "  without one, over usual", "ms"),
                                  less("usual", "  usual step", "ms"),
                                  less("checkpoint", "  a checkpoint beside training", "s"),
                                  less("stopped", "  with training stopped", "s")]),
}


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def shown(values, unit):
    """Median and range of the rounds; or what is said in words."""
    if not values:
        return "-"
    words = [v for v in values if isinstance(v, str)]
    if words:
        return words[-1]
    text = f"{number(statistics.median(values))} {unit}".strip()
    if len(values) == 1:
        return text
    return f"{text} ({number(min(values))}-{number(max(values))})"


def verdict(result, them, us):
    _, _, _, more_is_better, ratio_goal, at_most = result
    text = ""
    if not us or any(isinstance(v, str) for v in us):
        return text
    mine = statistics.median(us)
    if them and not any(isinstance(v, str) for v in them):
        theirs_ = statistics.median(them)
        over, under = (mine, theirs_) if more_is_better else (theirs_, mine)
        if under > 0:
            text = f"{over / under:.2f}x"
        if ratio_goal:
            met = under > 0 and over / under >= ratio_goal
            text += f"  goal {ratio_goal}x: {'met' if met else 'MISSED'}"
    if at_most is not None:
        text += f"  goal at most {at_most}: {'met' if max(us) <= at_most else 'MISSED'}"
    return text.strip()


def measure(name, sides, rounds):
    method, results = ROWS[name]
    measured = {side.name: {} for side in sides}
    for _ in range(rounds):
        for side in sides:
            for key, value in getattr(side, method)(name).items():
                measured[side.name].setdefault(key, []).append(value)
    for result in results:
        them, us = ([measured[side.name].get(result[0], []) for side in sides])
        print(f"{result[1]:34} TensorFlow {shown(them, result[2]):28} "
              f"Paracord {shown(us, result[2]):28} {verdict(result, them, us)}".rstrip(),
              flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/versus/tensorflow", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="folder of our programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(ROWS), metavar="ROW,...")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist",
                        help="folder of Fashion-MNIST's idx.gz files (default: %(default)s)")
    parser.add_argument("--tcmalloc", default=TCMALLOC if os.path.exists(TCMALLOC) else "",
                        metavar="FILE", help="preloaded into TensorFlow's processes "
                        "(default: Debian's libtcmalloc-minimal4, if it is installed)")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    unknown = [name for name in names if name not in ROWS]
    if unknown or arguments.rounds < 1:
        parser.error(f"unknown row {unknown[0]}; there are {', '.join(ROWS)}" if unknown
                     else "--rounds must be at least 1")
    sides = (theirs.Side(arguments.tcmalloc, arguments.data),
             ours.Side(arguments.bin, arguments.data))
    print(f"$ bench/versus/tensorflow {shlex.join(sys.argv[1:])}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, "
          f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; TensorFlow "
          f"{importlib.metadata.version('tensorflow_cpu')} with"
          f"{'' if arguments.tcmalloc else 'out'} tcmalloc; 2 ps, 2 workers; "
          f"median of {arguments.rounds} (range)", flush=True)
    for name in names:
        measure(name, sides, arguments.rounds)
    print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)


if __name__ == "__main__":
    main()
