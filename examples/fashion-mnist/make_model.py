#!/usr/bin/env python3
"""Writes models/mlp.json, models/cnn.json and models/resnet18.json.

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


def convolution(x, filters, size, stride=1):
    """Without a bias, which the normalisation would take away."""
    x = L.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)
    return L.BatchNormalization(momentum=0.9)(x)


def block(x, filters, stride):
    """Two convolutions beside a shortcut, which is a convolution where the shape changes."""
    shortcut = x
    if stride > 1 or shortcut.shape[-1] != filters:
        shortcut = convolution(shortcut, filters, 1, stride)
    x = L.ReLU()(convolution(x, filters, 3, stride))
    x = convolution(x, filters, 3)
    return L.ReLU()(L.Add()([x, shortcut]))


# As in He et al., 2015, with the stem for small images: 3 x 3 and no pooling.
image = keras.Input((28, 28, 1))
features = L.ReLU()(convolution(image, 64, 3))
for stage, filters in enumerate([64, 128, 256, 512]):
    features = block(features, filters, 1 if stage == 0 else 2)
    features = block(features, filters, 1)
classes = L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(features))
resnet18 = keras.Model(image, classes, name="fashion_mnist_resnet18")

for name, model in {"mlp": mlp, "cnn": cnn, "resnet18": resnet18}.items():
    path = pathlib.Path(__file__).parent / "models" / (name + ".json")
    path.write_text(model.to_json(indent=None if name == "resnet18" else 1) + "\n")
