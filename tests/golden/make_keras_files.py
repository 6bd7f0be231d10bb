#!/usr/bin/env python3
"""Writes the files of Keras that tests/cli/keras_file_test.cc reads: keras_tabular.keras with
preprocessing layers that have adapted, keras_nested.keras with layers inside of layers, and
keras_plain.h5, keras_plain.weights.h5 as Keras saved them before .keras. Element i of a weight is
number_of(path) + i / 1024, which the test computes for itself. Needs Keras 3 with TensorFlow."""
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras  # noqa: E402
import numpy as np  # noqa: E402

L = keras.layers
HERE = os.path.dirname(os.path.abspath(__file__))


def number_of(path: str) -> float:
    value = 0
    for letter in path.encode():
        value = (value * 31 + letter) % 4093
    return value / 4096


def fill(model: keras.Model) -> None:
    for weight in model.weights:
        if "seed" in weight.path or weight.dtype != "float32":
            continue
        path = weight.path.removeprefix(model.name + "/")  # as validate prints it
        values = number_of(path) + np.arange(np.prod(weight.shape, dtype=int)) / 1024
        weight.assign(values.reshape(weight.shape))


def tabular() -> keras.Model:
    city = L.StringLookup(name="city_words")
    city.adapt(["Ulm", "Bonn", "Ulm", "Köln"])
    masked = L.StringLookup(name="masked", mask_token="", num_oov_indices=2)
    masked.adapt(["a b", "c", "c"])
    ids = L.IntegerLookup(name="ids")
    ids.adapt([5, 7, 7, 123456789012])
    text = L.TextVectorization(name="words", max_tokens=6, output_sequence_length=4)
    text.adapt(["the cat sat", "the dog sat on the mat"])
    norm = L.Normalization(name="norm")
    norm.adapt(np.array([[1.0, 2], [3, 5], [9, 1]]))
    inputs = [keras.Input((1,), dtype="string", name="city"),
              keras.Input((1,), dtype="string", name="kind"),
              keras.Input((1,), dtype="int64", name="user"),
              keras.Input((1,), dtype="string", name="text"),
              keras.Input((2,), name="numbers")]
    looked_up = [layer(value) for layer, value in zip((city, masked, ids, text), inputs)]
    parts = [L.Flatten()(L.Embedding(6, 2)(index)) for index in looked_up]
    joined = L.Concatenate()([*parts, norm(inputs[4])])
    model = keras.Model(inputs, L.Dense(1, activation="sigmoid", name="out")(joined))
    model.compile(keras.optimizers.Adam(0.25), "binary_crossentropy", metrics=["accuracy"])
    mean, variance = norm.mean.numpy().copy(), norm.variance.numpy().copy()
    fill(model)
    norm.adapt_mean.assign(mean.reshape(norm.adapt_mean.shape))
    norm.adapt_variance.assign(variance.reshape(norm.adapt_variance.shape))
    return model


def nested() -> keras.Model:
    inner = keras.Sequential([keras.Input((4, 4, 1)), L.Conv2D(2, 3, name="c1"),
                              L.BatchNormalization(), L.Flatten()], name="inner")
    image = keras.Input((4, 4, 1), name="img")
    steps = keras.Input((5, 4), name="seq")
    both = L.Bidirectional(L.LSTM(3), name="both")(steps)
    attention = L.MultiHeadAttention(2, 3, name="attention")(steps, steps)
    each = L.TimeDistributed(L.Dense(2, name="inside"), name="each")(attention)
    joined = L.Concatenate()([inner(image), both, L.Flatten()(each)])
    model = keras.Model([image, steps], L.Dense(1, name="out")(L.Dropout(0.2)(joined)))
    fill(model)
    return model


def plain() -> keras.Model:
    model = keras.Sequential(
        [keras.Input((3,)), L.Dense(2, name="second"), L.Dense(1, name="last")])
    fill(model)
    return model


if __name__ == "__main__":
    tabular().save(os.path.join(HERE, "keras_tabular.keras"))
    nested().save(os.path.join(HERE, "keras_nested.keras"))
    plain().save(os.path.join(HERE, "keras_plain.h5"))
    plain().save_weights(os.path.join(HERE, "keras_plain.weights.h5"))
