#!/usr/bin/env python3
"""Has programs of an early version write the checkpoints of early_tables/.

Each job is drained in the middle. Kept are its newest checkpoint, with what that continues, the
values in it (values.safetensors) and those at the job's end (end.safetensors), both as the same
programs export them.

    tests/golden/make_early_tables.py --bin DIRECTORY_OF_THE_EARLY_PROGRAMS
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent / "early_tables"
EXAMPLES, IDS, DIM = 52, 3, 4  # the last batch of an epoch is smaller
NAMES = ("ids.npy", "want.npy")


def npy(path, descr, shape, data):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_data(folder):
    draw = random.Random(7)
    ids = [draw.randrange(4 if draw.random() < 0.3 else 30) for _ in range(EXAMPLES * IDS)]
    npy(folder / NAMES[0], "<i8", (EXAMPLES, IDS), struct.pack("<%dq" % len(ids), *ids))
    want = [draw.uniform(-1, 1) for _ in range(EXAMPLES)]
    npy(folder / NAMES[1], "<f4", (EXAMPLES, 1), struct.pack("<%df" % len(want), *want))


def job(table, optimizer, full_every=1):
    def layer(kind, **config):
        return {"class_name": kind, "config": config}

    layers = [
        layer("InputLayer", name="id", dtype="int64", batch_shape=[None, IDS]),
        layer("Embedding", name="user", input_dim=30, output_dim=DIM),
        layer("Flatten", name="flat"),
        layer("Dense", name="out", units=1),
    ]
    return {
        "name": "early",
        "model": {"class_name": "Sequential", "config": {"name": "early", "layers": layers}},
        "data": {"train": {"format": "npy", "features": NAMES[0], "labels": NAMES[1]}},
        "batch": 8,
        "epochs": 12,
        "loss": "mean_squared_error",
        "optimizer": optimizer,
        "tables": {"user": table},
        "partitioner": {"kind": "fixed_shards", "shards": 2},
        "checkpoint": {"every_seconds": 0.15, "keep": 1, "full_every": full_every},
    }


ADAGRAD = {"name": "adagrad", "learning_rate": 0.1}
ADAM = {"name": "adam", "learning_rate": 0.01}
JOBS = {
    "fixed": job({"kind": "fixed"}, ADAGRAD),
    "lazy": job({"kind": "fixed", "update": "lazy"}, ADAM),
    "growing": job(
        {
            "kind": "growing",
            "shards": 3,
            "update": "lazy",
            "admit": {"after": 2, "candidates": 48},
            "expire": {"batches": 9},
        },
        ADAM,
    ),
    "chain": job({"kind": "growing", "shards": 2, "expire": {"batches": 4}}, ADAGRAD, full_every=9),
}


def links(folder):
    """The newest checkpoint below `folder`, and those that it continues."""
    found = folder.glob("step-*/MANIFEST.json")
    manifests = {path.parent.name: json.loads(path.read_text()) for path in found}

    def age(name):
        return manifests[name]["generation"], manifests[name]["round"]

    name = max(manifests, key=age, default="")
    chain = []
    while name:
        chain.append(name)
        name = manifests[name].get("base", "")
    return chain


def train(programs, folder, stall_ms):
    command = [programs / "paracord", "train", "job.json", "--dir", "dir", "--json"]
    return subprocess.Popen(
        command + ["--workers", "1", "--ps", "2"],
        cwd=folder,
        env={**os.environ, "PARACORD_FAILPOINTS": "worker.computed=stall:%d" % stall_ms},
        stdout=subprocess.DEVNULL,
    )


def export(programs, folder, out):
    subprocess.run(
        [programs / "paracord", "export", "--dir", "dir", "--out", out], cwd=folder, check=True
    )


def make(programs, name, below):
    # Checkpoints, of which the last is the drain's, and batches before the drain.
    want, batches = (3, 10) if JOBS[name]["checkpoint"]["full_every"] > 1 else (1, 30)
    while True:
        folder = pathlib.Path(tempfile.mkdtemp(dir=below))
        for data in NAMES:
            shutil.copy(HERE / data, folder)
        (folder / "job.json").write_text(json.dumps(JOBS[name], indent=1) + "\n")
        running = train(programs, folder, 30)
        checkpoints = folder / "dir" / "checkpoints"
        while running.poll() is None:
            chain = links(checkpoints)
            if len(chain) == max(want - 1, 1) and int(chain[0].split("-")[1]) >= batches:
                break
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        code = running.wait()
        chain = links(checkpoints)
        if code == 143 and len(chain) == want:
            break
        print(name, "again: exit", code, chain)
    to = HERE / name
    shutil.rmtree(to, ignore_errors=True)
    export(programs, folder, to.parent / "values")
    for link in chain:
        shutil.copytree(checkpoints / link, to / "dir" / "checkpoints" / link)
    shutil.copy(folder / "job.json", to)
    (to.parent / "values").rename(to / "values.safetensors")
    assert train(programs, folder, 0).wait() == 0
    export(programs, folder, to / "end.safetensors")
    counts = json.loads((folder / "dir" / "summary.json").read_text()).get("tables")
    print(name, chain, counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    programs = parser.parse_args().bin.resolve()
    HERE.mkdir(exist_ok=True)
    write_data(HERE)
    with tempfile.TemporaryDirectory() as below:
        for name in JOBS:
            make(programs, name, below)


main()
