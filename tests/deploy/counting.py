#!/usr/bin/env python3
"""Writes a job whose right result is known: counting.py FOLDER DATA

Each batch of its data (two npy files, in DATA) is applied exactly once to each of five partitions
or the ledger in its summary says otherwise. It never ends by itself.
"""
import json
import os
import struct
import sys

RECORDS, UNITS, BATCH, STEPS = 4096, 1024, 16, 1000000000


def write_npy(path, shape, value):
    axes = "".join(f"{axis}, " for axis in shape)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({axes}), }}"
    header = header.ljust((10 + len(header) + 64) // 64 * 64 - 11) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<f", value) * (shape[0] * shape[1]))


def main():
    folder, data = sys.argv[1], sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    write_npy(f"{data}/counting-x.npy", (RECORDS, 2), 0.0)
    write_npy(f"{data}/counting-y.npy", (RECORDS, UNITS), 4194304.0)
    layers = [{"class_name": "InputLayer", "config": {"batch_shape": [None, 2]}},
              {"class_name": "Dense",
               "config": {"name": "count", "units": UNITS, "kernel_initializer": "zeros"}}]
    model = {"class_name": "Sequential", "config": {"name": "model", "layers": layers}}
    job = {"name": "counting", "model": model, "steps": STEPS, "batch": BATCH,
           "data": {"train": {"format": "npy", "features": "/data/counting-x.npy",
                              "labels": "/data/counting-y.npy"}},
           "loss": "mean_absolute_error", "optimizer": {"name": "sgd", "learning_rate": UNITS},
           "partitioner": {"kind": "fixed_shards", "shards": 5},
           "timeouts": {"worker_ms": 3000, "ps_ms": 3000, "drain_ms": 10000},
           "checkpoint": {"every_seconds": 5, "keep": 3}}
    with open(f"{folder}/job.json", "w", encoding="utf-8") as file:
        json.dump(job, file, indent=1)


main()
