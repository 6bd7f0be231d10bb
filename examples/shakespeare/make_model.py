#!/usr/bin/env python3
"""Writes model.json: a Transformer that predicts the next character from those before it.

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

CHARACTERS = 65
CONTEXT = 64
WIDTH = 128
LAYERS = 4
HEADS = 4

tokens = keras.Input((CONTEXT,), name="tokens")
x = L.Embedding(CHARACTERS, WIDTH, name="characters")(tokens)
# Learned positions: a PReLU has a slope for each place and channel, and is minus it where its
# input is -1. (An Embedding of the positions would need them as a second input.)
positions = L.PReLU(alpha_initializer=keras.initializers.RandomNormal(stddev=0.02),
                    name="positions")(x * 0.0 - 1.0)
x = L.Add(name="embedded")([x, positions])
for i in range(LAYERS):
    y = L.LayerNormalization(epsilon=1e-5, name=f"attention{i}_norm")(x)
    y = L.MultiHeadAttention(HEADS, WIDTH // HEADS, name=f"attention{i}")(
        y, y, use_causal_mask=True)
    x = L.Add(name=f"attention{i}_add")([x, y])
    y = L.LayerNormalization(epsilon=1e-5, name=f"mlp{i}_norm")(x)
    y = L.Dense(4 * WIDTH, activation="gelu", name=f"mlp{i}_up")(y)
    y = L.Dense(WIDTH, name=f"mlp{i}_down")(y)
    x = L.Add(name=f"mlp{i}_add")([x, y])
x = L.LayerNormalization(epsilon=1e-5, name="norm")(x)
model = keras.Model(tokens, L.Dense(CHARACTERS, name="logits")(x), name="shakespeare")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
