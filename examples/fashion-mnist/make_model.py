#!/usr/bin/env python3
"""Writes models/mlp.json and models/cnn.json.

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

cnn = keras.Sequential([
    keras.Input((28, 28, 1)),
    L.Conv2D(32, 3, padding="same", activation="relu"),
    L.MaxPooling2D(),
    L.Conv2D(64, 3, padding="same", activation="relu"),
    L.MaxPooling2D(),
    L.Flatten(),
    L.Dense(128, activation="relu"),
    L.Dense(10, activation="softmax"),
], name="fashion_mnist_cnn")
mlp = keras.Sequential([
    keras.Input((28, 28)),
    L.Flatten(),
    L.Dense(512, activation="relu"),
    L.Dense(256, activation="relu"),
    L.Dense(10, activation="softmax"),
], name="fashion_mnist_mlp")
for name, model in {"mlp": mlp, "cnn": cnn}.items():
    path = pathlib.Path(__file__).parent / "models" / (name + ".json")
    path.write_text(model.to_json(indent=1) + "\n")
