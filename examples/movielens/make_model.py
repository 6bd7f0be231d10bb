#!/usr/bin/env python3
"""Writes model.json: matrix factorisation. A rating is the mean of all, plus what the user gives
and the film gets in general, plus how well their vectors agree.

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

USERS, FILMS = 1000, 10000  # at most; the editions of the data differ
COLUMNS = 50
MEAN = 3.54


def embedding(name, rows, columns, l2, scale):
    return L.Embedding(rows, columns, name=name, embeddings_regularizer=keras.regularizers.L2(l2),
                       embeddings_initializer=keras.initializers.RandomNormal(stddev=scale))


user, film = keras.Input((1,), name="user"), keras.Input((1,), name="film")
agreement = L.Dot(axes=2, name="agreement")([
    embedding("user_vector", USERS, COLUMNS, 3e-4, 0.05)(user),
    embedding("film_vector", FILMS, COLUMNS, 3e-4, 0.05)(film)])
rating = L.Add(name="sum")([agreement, embedding("user_bias", USERS, 1, 1e-4, 0.01)(user),
                            embedding("film_bias", FILMS, 1, 1e-4, 0.01)(film)])
rating = L.Rescaling(1.0, offset=MEAN, name="rating")(L.Flatten(name="flat")(rating))
model = keras.Model([user, film], rating, name="movielens")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
