#!/usr/bin/env python3
"""Writes data/train.tsv and data/test.tsv in the form of Criteo's click logs: a label, 13 whole
numbers and 26 words in hexadecimal, separated by tabs, some of them empty.

The labels are drawn from a planted model, so that the AUC is known that the best model reaches:
the one of the probabilities that the labels were drawn with. Needs NumPy.
"""
import pathlib

import numpy as np

SEED, TRAIN, TEST = 1, 400_000, 50_000
NUMBERS, WORDS = 13, 26
SIZES = np.geomspace(8, 8000, WORDS).astype(int)  # different words of each column
LATENT = 3  # each word has a vector, and columns meet in pairs

rng = np.random.default_rng(SEED)


def names(column):
    """Different words of 8 hexadecimal digits, which no other column has."""
    codes = (np.arange(SIZES[column], dtype=np.uint64) * np.uint64(WORDS) + np.uint64(column))
    return [f"{int(code):08x}" for code in (codes * np.uint64(2654435761)) % np.uint64(1 << 32)]


def draw(count):
    """Words by rank, the first of which are frequent, and numbers of a wide range."""
    words = np.stack([(size ** rng.random(count) - 1).astype(int) for size in SIZES], 1)
    numbers = np.floor(np.exp(rng.normal(1.5, 1.2, (count, NUMBERS)))).astype(int)
    missing = rng.random((count, NUMBERS)) < 0.1, rng.random((count, WORDS)) < 0.03
    return words, numbers, *missing


effects = [rng.normal(0, 0.35, size) for size in SIZES]
vectors = [rng.normal(0, 0.45, (size, LATENT)) for size in SIZES]
slopes = rng.normal(0, 0.25, NUMBERS)
pairs = rng.permutation(WORDS).reshape(-1, 2)


def chance(words, numbers, no_number, no_word):
    """The probability of a click. What is missing has no effect."""
    there = ~no_word
    logit = np.full(len(words), -1.4)
    for c in range(WORDS):
        logit += there[:, c] * effects[c][words[:, c]]
    for a, b in pairs:
        agreement = (vectors[a][words[:, a]] * vectors[b][words[:, b]]).sum(1)
        logit += there[:, a] * there[:, b] * agreement
    logit += np.where(no_number, 0, np.log1p(numbers) - 1.7) @ slopes
    return 1 / (1 + np.exp(-logit))


def auc(score, label):
    rank = np.empty(len(score))
    rank[np.argsort(score)] = np.arange(1, len(score) + 1)
    ones = label.sum()
    return (rank[label == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones))


folder = pathlib.Path(__file__).with_name("data")
folder.mkdir(exist_ok=True)
texts = [names(column) for column in range(WORDS)]
for name, count in (("train", TRAIN), ("test", TEST)):
    words, numbers, no_number, no_word = draw(count)
    probability = chance(words, numbers, no_number, no_word)
    label = (rng.random(count) < probability).astype(int)
    with open(folder / f"{name}.tsv", "w") as file:
        for i in range(count):
            fields = [str(label[i])]
            fields += ["" if no_number[i, c] else str(numbers[i, c]) for c in range(NUMBERS)]
            fields += ["" if no_word[i, c] else texts[c][words[i, c]] for c in range(WORDS)]
            file.write("\t".join(fields) + "\n")
    print(f"{name}: {count} examples, {label.mean():.3f} of them clicks, "
          f"AUC of the planted model {auc(probability, label):.4f}")
