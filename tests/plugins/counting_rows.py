#!/usr/bin/env python3
"""Writes counting_rows.program: each occurrence of an id in a batch adds 1 to each number of its
row of a table, and each batch adds 1 to another variable, by SGD with the rate 1. Needs JAX."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

import numpy  # noqa: E402
import paracord.jax  # noqa: E402

ROWS, WIDTH, IDS, BATCH, RECORDS = 5000, 3, 4, 32, 1000


def predict(params, ids):
    return params["user"][ids].sum((1, 2))


@paracord.jax.program(
    {"user": numpy.zeros((ROWS, WIDTH), "f4"), "batches": numpy.zeros((), "f4")},
    predict=predict, outputs=[paracord.Output(())], tables={"user": paracord.Table("seen")})
def loss(params, seen, want):
    return -predict(params, seen).sum() - params["batches"] + 0 * want.sum()


if __name__ == "__main__":
    paracord.jax.export(loss, os.path.join(HERE, "counting_rows.program"),
                        inputs={"seen": (IDS,)}, targets={"": ()}, batch=BATCH, records=RECORDS)
