#!/usr/bin/env python3
"""Writes model.json: an LSTM that reads a sentence, and skips the padding behind it.

Needs Keras 3: pip install keras tensorflow-cpu
"""
import pathlib

import keras

L = keras.layers

WORDS = 8002  # job.json's vocabulary, and padding and unknown words before it
WINDOW = 40

model = keras.Sequential([
    keras.Input((WINDOW,), name="words"),
    L.Embedding(WORDS, 64, mask_zero=True, name="embedding"),
    L.Dropout(0.5, name="embedding_dropout"),
    L.Bidirectional(L.LSTM(48, name="lstm"), name="both_ways"),
    L.Dropout(0.5, name="dropout"),
    L.Dense(1, activation="sigmoid", name="good"),
], name="sentiment")
pathlib.Path(__file__).with_name("model.json").write_text(model.to_json() + "\n")
