#!/usr/bin/env python3
"""Writes preprocessing.keras3.json (with --keras2, preprocessing.keras2.json):
models with preprocessing
layers, raw inputs, and what Keras makes of them. The tests need no Python. To write them again:

  python3 -m venv /tmp/golden && /tmp/golden/bin/pip install keras==3.15.1 tensorflow-cpu tf_keras
  /tmp/golden/bin/python tests/golden/make_preprocessing.py
  /tmp/golden/bin/python tests/golden/make_preprocessing.py --keras2
"""
import json
import os

import numpy as np

from oracle import KERAS2, keras, tf

L = keras.layers
EXAMPLES = 5
WORDS = ["red", "green", "blue", "", "ochre", "grün", "a b", "[UNK]", "red"]
IDS = [3, 5, 900719925474099, -4, 0, 7, 2147483648, -1, 16777217]


def listed(array):
    return [float(f"{v:.8g}") for v in np.asarray(array, dtype="float64").ravel()]


def words(width=1):
    return np.array([WORDS[(i * 4 + i // 9) % 9] for i in range(EXAMPLES * width)],
                    dtype=object).reshape(EXAMPLES, width)


TEXTS = ["The red, green & BLUE fox isn't  red", "", "grün! ochre\t(red) red", "!?; --",
         "a red-green e.g. x"]


def texts():
    return np.array(TEXTS, dtype=object).reshape(EXAMPLES, 1)


def ids(width=1):
    return np.array([IDS[(i * 2 + i // 9) % 9] for i in range(EXAMPLES * width)],
                    dtype="int64").reshape(EXAMPLES, width)


def small(width, below):
    return (np.arange(EXAMPLES * width) * 7 % below).astype("int32").reshape(EXAMPLES, width)


def floats(width):
    values = np.round(np.random.default_rng(3).uniform(-2, 4, (EXAMPLES, width)) * 4) / 4
    return values.astype("float32")


def as_input(name, x):
    dtype = "string" if x.dtype == object else x.dtype.name
    return keras.Input(x.shape[1:], dtype=dtype, name=name)


def given(x):
    if x.dtype == object:
        values = {"strings": x.ravel().tolist()}
    elif x.dtype == np.int64:
        values = {"strings": [str(v) for v in x.ravel()]}
    else:
        values = {"values": listed(x)}
    return {"shape": list(x.shape[1:]), **values}


def case(name, inputs, build):
    """`inputs`: arrays by name. `build` gives the encodings, of which floats are learned from."""
    keras.backend.clear_session()
    tensors = {n: as_input(n, x) for n, x in inputs.items()}
    outputs = build(**tensors)
    dense = L.Dense(2, name="dense")(
        L.Concatenate(name="join")([o for o in outputs if "float" in str(o.dtype)]))
    model = keras.Model(list(tensors.values()), [dense] + outputs)
    rng = np.random.default_rng(len(name))
    for variable in model.trainable_variables:  # Keras 2 has idf_weights among the others
        variable.assign((np.round(rng.uniform(-1, 1, variable.shape) * 256) / 256))
    results = model([tf.constant(x) for x in inputs.values()], training=False)
    own = {(v.name.split(":")[0] if KERAS2 else v.path): v for v in model.trainable_variables}
    print(name, [tuple(r.shape) for r in results])
    return {"name": name, "model": json.loads(model.to_json()), "examples": EXAMPLES,
            "inputs": {n: given(x) for n, x in inputs.items()},
            "weights": {path: listed(v.numpy()) for path, v in own.items()},
            "outputs": [listed(r.numpy()) for r in results]}


def one_or_two(mode):
    """Keras 2 one-hots one value an example."""
    return 1 if KERAS2 and mode == "one_hot" else 2


def cases():
    for mode in ("one_hot", "multi_hot", "count"):
        yield case("category_" + mode, {"x": small(1 if mode == "one_hot" else 3, 4)},
                   lambda x: [L.CategoryEncoding(4, output_mode=mode)(x)])
    for mode in ("one_hot", "multi_hot", "count"):
        yield case("discretization_" + mode, {"x": floats(one_or_two(mode)),
                                              "y": small(1, 9)}, lambda x, y: [
            L.Reshape((-1,))(L.Discretization([-0.5, 0.0, 1.25], output_mode=mode)(x)),
            L.Discretization([2.0, 5.0], output_mode=mode)(y)])
    for mode in ("one_hot", "multi_hot", "count"):
        yield case("words_" + mode, {"w": words(1 if mode == "one_hot" else 3)}, lambda w: [
            L.StringLookup(vocabulary=["green", "red", "ochre"], output_mode=mode)(w),
            L.StringLookup(vocabulary=["green", "red"], mask_token="", num_oov_indices=3,
                           output_mode=mode)(w)])
    yield case("words_tf_idf", {"w": words(4)}, lambda w: [
        L.StringLookup(vocabulary=["green", "red", "blue"], idf_weights=[0.5, 0.25, 2.0],
                       output_mode="tf_idf", num_oov_indices=2)(w),
        L.StringLookup(vocabulary=["[UNK]", "red", "blue"], idf_weights=[0.5, 0.25, 2.0],
                       output_mode="tf_idf", max_tokens=6, pad_to_max_tokens=True)(w)])
    yield case("ids_lookup", {"i": ids()}, lambda i: [
        L.IntegerLookup(vocabulary=[3, 5, 900719925474099], output_mode="one_hot")(i),
        L.IntegerLookup(vocabulary=[3, 5], output_mode="count", num_oov_indices=3)(i),
        L.IntegerLookup(vocabulary=[3, 5, -1, 16777217], output_mode="multi_hot", mask_token=0)(i)])
    yield case("ids_hashed", {"i": ids(2), "w": words(2)}, lambda i, w: [
        L.Hashing(6, output_mode="count")(i), L.Hashing(5, output_mode="multi_hot")(w),
        L.CategoryEncoding(9, output_mode="count")(L.Hashing(9, mask_value="")(w))])
    salted = [] if KERAS2 else [dict(salt=[5, 6]), dict(salt=9, oov_method="farmhash")]
    if salted:
        yield case("salted", {"i": ids(), "w": words()}, lambda i, w: [
            L.StringLookup(vocabulary=["red"], num_oov_indices=5, output_mode="one_hot",
                           **salted[0])(w),
            L.IntegerLookup(vocabulary=[3], num_oov_indices=5, output_mode="one_hot",
                            **salted[1])(i),
            L.IntegerLookup(vocabulary=[3], num_oov_indices=5, oov_method="farmhash")(i)])
    yield case("salted_hashing", {"i": ids(), "w": words()}, lambda i, w: [
        L.Hashing(50, salt=[133, 137], output_mode="one_hot")(w), L.Hashing(9, salt=7)(i)])
    yield case("crossed", {"i": ids(), "w": words(), "x": floats(1)}, lambda i, w, x: [
        L.HashedCrossing(11, output_mode="one_hot")([w, i]),
        L.HashedCrossing(8, output_mode="one_hot")(
            # Keras 3 can draw up crosses of two only.
            [L.Discretization([0.0, 1.0])(x), w] + ([i] if KERAS2 else [])),
        x])
    known = ["red", "green", "the", "grün", "isnt", "a"]
    T = L.TextVectorization
    yield case("text_numbers", {"t": texts()}, lambda t: [
        L.Flatten()(L.Embedding(8, 2, name="embedded")(
            T(output_sequence_length=5, vocabulary=known)(t))),
        T(standardize="lower", output_sequence_length=9, vocabulary=["", "[UNK]", "red", "fox"])(t),
        T(standardize=None, split="character", output_sequence_length=4,
          vocabulary=["r", "e", "!", " ", "ü"])(t),
        T(standardize="strip_punctuation", split="character", output_sequence_length=20,
          vocabulary=["r", "e", "!", " ", "ü"])(t),
        T(ngrams=2, output_sequence_length=7, vocabulary=known + ["the red", "red green"])(t)])
    yield case("text_encoded", {"t": texts()}, lambda t: [
        T(output_mode="multi_hot", vocabulary=known)(t),
        T(output_mode="count", ngrams=(2, 3), vocabulary=["the red", "red green blue"],
          max_tokens=9, pad_to_max_tokens=True)(t),
        T(output_mode="tf_idf", vocabulary=known[:3], idf_weights=[0.5, 0.25, 2.0])(t)])
    # Without an encoding the model gets numbers, as for an embedding.
    yield case("numbers", {"i": ids(), "w": words(), "x": floats(1)}, lambda i, w, x: [
        L.Flatten()(L.Embedding(6, 2, name="embedded")(
            L.StringLookup(vocabulary=["green", "red"], mask_token="", num_oov_indices=2)(w))),
        L.StringLookup(vocabulary=["", "[UNK]", "red"], mask_token="")(w),
        L.IntegerLookup(vocabulary=[5, 7], mask_token=3, num_oov_indices=4)(i),
        L.Hashing(1000, mask_value="red")(w), L.Hashing(7, mask_value=5)(i),
        L.Hashing(1)(w), L.HashedCrossing(1000000)([w, i]),
        L.Discretization([-1.0, 0.25, 0.25, 3.0])(x)])


result = list(cases())
path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "preprocessing.keras2.json" if KERAS2 else "preprocessing.keras3.json")
with open(path, "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":"), ensure_ascii=False)
                                 for c in result) + "\n]\n")
