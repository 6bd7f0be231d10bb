#!/usr/bin/env python3
"""Writes model.json: DLRM (Naumov et al., 2019). The numbers go through layers of their own to as
many numbers as a word has in the table, and the dot products of all pairs go on to the last layers.

Needs Keras 3 and Keras-RS: pip install keras keras-rs tensorflow-cpu
"""
import pathlib

import keras
import keras_rs

L = keras.layers

NUMBERS, WORDS = 13, 26
ROWS, COLUMNS = 1 << 18, 16

numbers = keras.Input((NUMBERS,), name="numbers")
words = keras.Input((WORDS,), dtype="int32", name="words")
x = L.Dense(64, activation="relu", name="bottom_1")(numbers)
x = L.Dense(COLUMNS, activation="relu", name="bottom_2")(x)
rows = L.Embedding(ROWS, COLUMNS, name="word", embeddings_initializer=keras.initializers.
                   RandomUniform(-0.05, 0.05))(words)
dots = keras_rs.layers.DotInteraction(name="dots")([x] + list(keras.ops.unstack(rows, axis=1)))
y = L.Concatenate(name="joined")([x, dots])
y = L.Dense(128, activation="relu", name="top_1")(y)
y = L.Dense(64, activation="relu", name="top_2")(y)
click = L.Dense(1, activation="sigmoid", name="click")(y)
model = keras.Model([numbers, words], click, name="dlrm")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
