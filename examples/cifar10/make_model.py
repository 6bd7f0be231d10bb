#!/usr/bin/env python3
"""Writes model.json: ResNet-18 (He et al., 2015) with the stem for small images.

Needs Keras 3: pip install keras, and one of its backends
"""
import pathlib

import keras

L = keras.layers


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


image = keras.Input((32, 32, 3), name="image")  # 0 to 255, as the file has them
x = L.Rescaling(1 / 127.5, offset=-1)(image)
x = L.RandomFlip("horizontal")(x)
x = L.RandomTranslation(0.125, 0.125, fill_mode="constant")(x)  # by up to 4 pixels
x = L.ReLU()(convolution(x, 64, 3))
for stage, filters in enumerate([64, 128, 256, 512]):
    x = block(x, filters, 1 if stage == 0 else 2)
    x = block(x, filters, 1)
classes = L.Dense(10, activation="softmax", name="classes")(L.GlobalAveragePooling2D()(x))
model = keras.Model(image, classes, name="cifar10_resnet18")
(pathlib.Path(__file__).parent / "model.json").write_text(model.to_json() + "\n")
