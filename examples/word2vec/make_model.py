#!/usr/bin/env python3
"""Writes model.json: skip-gram with negative sampling (Mikolov et al., 2013). A word has one vector
as itself and another one as a neighbour, and the dot product of the two says whether they are near.

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

WORDS, COLUMNS = 30_000 + 2, 100  # numbers begin at 2
NEGATIVE = 5

word = keras.Input((1,), dtype="int32", name="word")
others = keras.Input((1 + NEGATIVE,), dtype="int32", name="others")
scale = 0.5 / COLUMNS
vector = L.Embedding(WORDS, COLUMNS, name="vector", embeddings_initializer=keras.initializers.
                     RandomUniform(-scale, scale))(word)
context = L.Embedding(WORDS, COLUMNS, name="context", embeddings_initializer="zeros")(others)
agreement = L.Flatten(name="flat")(L.Dot(axes=2, name="agreement")([vector, context]))
near = L.Activation("sigmoid", name="near")(agreement)
pathlib.Path(__file__).with_name("model.json").write_text(
    keras.Model([word, others], near, name="word2vec").to_json() + "\n")
