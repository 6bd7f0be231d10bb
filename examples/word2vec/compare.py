#!/usr/bin/env python3
"""How well the vectors of words agree with people: Spearman's correlation of their cosines with the
likeness that people gave pairs of words. With --gensim, gensim learns the same text with the same
settings in the same number of epochs, and is judged alike.

    paracord export --dir DIR --out model.safetensors
    pip install safetensors scipy gensim
    python3 compare.py --text data/text.txt --model model.safetensors --pairs FILE... [--gensim]

A file of pairs has a word, another word and a number in each line, separated by tabs or commas.
"""
import argparse
import collections
import json
import pathlib
import re
import time

import numpy as np
from safetensors.numpy import load_file
from scipy.stats import spearmanr


def pairs_of(path):
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        fields = re.split(r"[\t,]", line)
        # In SimLex-999 a part of speech comes before the number.
        numbers = [f for f in fields[2:] if re.fullmatch(r"\d+(\.\d+)?", f)]
        if numbers:
            yield fields[0].lower(), fields[1].lower(), float(numbers[0])


def correlation(vectors, numbers, path):
    """Spearman's correlation over the pairs that have vectors, and how many these are."""
    ours, theirs = [], []
    for a, b, likeness in pairs_of(path):
        if a in numbers and b in numbers:
            u, v = vectors[numbers[a]], vectors[numbers[b]]
            ours.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
            theirs.append(likeness)
    return spearmanr(ours, theirs).statistic, len(ours)


def report(name, vectors, numbers, paths):
    for path in paths:
        value, count = correlation(vectors, numbers, path)
        print(f"{name}: {pathlib.Path(path).stem} {value:.3f} ({count} pairs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", nargs="+", required=True)
    parser.add_argument("--job", default=str(pathlib.Path(__file__).with_name("job.json")))
    parser.add_argument("--gensim", action="store_true")
    arguments = parser.parse_args()
    job = json.loads(pathlib.Path(arguments.job).read_text(encoding="utf-8"))
    data = job["data"]["train"]
    text = pathlib.Path(arguments.text).read_text(encoding="utf-8").lower().split()
    # Numbers begin at 2 with the most frequent word; equally frequent ones are ordered by bytes.
    counts = sorted(collections.Counter(text).items(), key=lambda c: (-c[1], c[0].encode()))
    words = [word for word, _ in counts[:data["vocabulary"]]]
    report("paracord", load_file(arguments.model)["vector/embeddings"],
           {word: 2 + i for i, word in enumerate(words)}, arguments.pairs)
    if not arguments.gensim:
        return
    from gensim.models import Word2Vec
    options = data["skipgram"]
    lines = [text[i:i + 10000] for i in range(0, len(text), 10000)]
    model = Word2Vec(vector_size=100, window=options["window"], negative=options["negative"],
                     sample=options["subsample"], sg=1, min_count=1, workers=2, seed=1,
                     max_final_vocab=data["vocabulary"])
    model.build_vocab(lines)
    begin = time.monotonic()
    model.train(lines, total_examples=len(lines), epochs=job["epochs"])
    seconds = time.monotonic() - begin
    print(f"gensim: {len(text) * job['epochs'] / seconds:,.0f} words a second")
    report("gensim", model.wv.vectors, model.wv.key_to_index, arguments.pairs)


if __name__ == "__main__":
    main()
