#!/usr/bin/env python3
"""Writes model.json: a wide and deep model of Adult that takes the columns as the files have them.

Words are looked up, numbers put into ranges and pairs of columns hashed by preprocessing layers,
which are part of the model file. The wide part learns a number for each of these categories, the
deep part a vector. Needs Keras 3 with TensorFlow: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

WORDS = {
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, "
                 "Without-pay, Never-worked",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, "
                 "9th, 7th-8th, 12th, Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "marital_status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, "
                      "Married-spouse-absent, Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, "
                  "Prof-specialty, Handlers-cleaners, Machine-op-inspct, Adm-clerical, "
                  "Farming-fishing, Transport-moving, Priv-house-serv, Protective-serv, "
                  "Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
}
RANGES = {
    "age": [18, 22, 25, 28, 31, 34, 37, 40, 44, 48, 52, 57, 62, 70],
    "capital_gain": [1, 2000, 3000, 4000, 4500, 5100, 6000, 7000, 8000, 10000, 20000],
    "capital_loss": [1, 1500, 1700, 1820, 1860, 1890, 1950, 2000, 2200, 2400],
    "hours_per_week": [15, 25, 35, 40, 41, 45, 50, 55, 60, 70],
}
CROSSES = [("education", "occupation"), ("relationship", "occupation"),
           ("age", "education"), ("age", "hours_per_week")]
COUNTRIES = 100  # bins
BINS = 500       # of a cross

inputs, ids, sizes = {}, {}, {}
for name, words in WORDS.items():
    inputs[name] = keras.Input((1,), name=name, dtype="string")
    ids[name] = L.StringLookup(vocabulary=words.split(", "), name=name + "_id")(inputs[name])
    sizes[name] = len(words.split(", ")) + 1  # 0: a word that is not known, such as "?"
for name, bounds in RANGES.items():
    inputs[name] = keras.Input((1,), name=name)
    ids[name] = L.Discretization(bin_boundaries=bounds, name=name + "_id")(inputs[name])
    sizes[name] = len(bounds) + 1
inputs["native_country"] = keras.Input((1,), name="native_country", dtype="string")
ids["native_country"] = L.Hashing(COUNTRIES, name="native_country_id")(inputs["native_country"])
sizes["native_country"] = COUNTRIES

wide = {}
for pair in CROSSES:
    name = "_x_".join(pair)
    wide[name] = L.HashedCrossing(BINS, name=name)([ids[each] for each in pair])
    sizes[name] = BINS


def embed(name, values, columns, part):
    vectors = L.Embedding(sizes[name], columns, name=f"{part}_{name}")(values)
    return L.Flatten(name=f"{part}_{name}_flat")(vectors)


wide_sum = L.Add(name="wide")([embed(name, values, 1, "wide")
                               for name, values in {**ids, **wide}.items()])
x = L.Concatenate(name="deep")([embed(name, values, 8, "deep") for name, values in ids.items()])
for i, units in enumerate([100, 50]):
    x = L.Dense(units, activation="relu", name=f"deep_{i}")(x)
    x = L.Dropout(0.3, name=f"dropout_{i}")(x)
x = L.Add(name="both")([wide_sum, L.Dense(1, name="deep_out")(x)])
model = keras.Model(list(inputs.values()), L.Activation("sigmoid", name="rich")(x), name="adult")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
