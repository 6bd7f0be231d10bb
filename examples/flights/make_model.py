#!/usr/bin/env python3
"""Writes model.json: the wide and deep shape of models that predict clicks. Every feature of a
flight is a hashed id; each id has a number (wide) and a vector (deep).

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

# Of each feature, as job.json has them: hour, weekday, origin, destination, route, miles, and five
# crosses with the hour or the weekday.
BINS = [1024, 1024, 16384, 16384, 65536, 16384] + [65536] * 5
COLUMNS = 8

inputs, wide, deep = [], [], []
for i, bins in enumerate(BINS):
    ids = keras.Input((1,), name=f"id{i}")
    inputs.append(ids)
    wide.append(L.Flatten(name=f"wide{i}_flat")(L.Embedding(bins, 1, name=f"wide{i}")(ids)))
    deep.append(L.Flatten(name=f"deep{i}_flat")(L.Embedding(bins, COLUMNS, name=f"deep{i}")(ids)))
x = L.Concatenate(name="vectors")(deep)
for i, units in enumerate([64, 32]):
    x = L.Dense(units, activation="relu", name=f"dense{i}")(x)
logit = L.Add(name="logit")(wide + [L.Dense(1, name="deep_out")(x)])
model = keras.Model(inputs, L.Activation("sigmoid", name="late")(logit), name="flights")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
