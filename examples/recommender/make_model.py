#!/usr/bin/env python3
"""Writes model.json: how well the vectors of user and item agree is the chance of a click.

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

user, item = keras.Input((1,), name="user"), keras.Input((1,), name="item")
vectors = [L.Embedding(1000, 8, name="user_vector")(user),
           L.Embedding(1000, 8, name="item_vector")(item)]
agreement = L.Flatten(name="flat")(L.Dot(axes=2, name="agreement")(vectors))
click = L.Dense(1, activation="sigmoid", name="click")(agreement)
model = keras.Model([user, item], click, name="recommender")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
