#!/usr/bin/env python3
"""Writes CIFAR-10 as arrays into data/ beside this file: images of 32 x 32 x 3 and labels, uint8.

    make_data.py cifar-10-binary.tar.gz               the archive that its authors publish
    make_data.py /usr/share/datasets/fashion-mnist    Fashion-MNIST in the same form

The grey images of Fashion-MNIST get a black rim, and are there three times for the colours.

Needs NumPy. --out FOLDER writes elsewhere.
"""
import argparse
import gzip
import pathlib
import re
import struct
import sys
import tarfile

import numpy

SIDE, COLOURS, CLASSES = 32, 3, 10
RECORD = 1 + COLOURS * SIDE * SIDE  # the label, then all of red, all of green, all of blue


def records(name, data):
    """Images and labels of one file of the archive."""
    if not data or len(data) % RECORD:
        sys.exit(f"{name}: has {len(data)} bytes, which are no records of {RECORD}")
    rows = numpy.frombuffer(data, "u1").reshape(-1, RECORD)
    labels = rows[:, 0]
    if labels.max() >= CLASSES:
        sys.exit(f"{name}: record {labels.argmax()} has the label {labels.max()}, and "
                 f"{CLASSES - 1} is the last class")
    planes = rows[:, 1:].reshape(-1, COLOURS, SIDE, SIDE)
    return planes.transpose(0, 2, 3, 1), labels  # colours last, as Keras has them


def of_archive(path):
    """Arrays by name, from the files data_batch_1.bin and on, and test_batch.bin."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = pathlib.PurePosixPath(member.name).name
            if member.isfile() and re.fullmatch(r"(data_batch_[0-9]+|test_batch)\.bin", name):
                found[name] = records(f"{path}: {member.name}", archive.extractfile(member).read())
    train = [found[name] for name in sorted(found) if name.startswith("data_batch")]
    if not train or "test_batch.bin" not in found:
        sys.exit(f"{path}: has {sorted(found)}, and needs data_batch_1.bin and test_batch.bin: "
                 "take the binary version of CIFAR-10")
    images, labels = zip(*train)
    return {"train_images": numpy.concatenate(images), "train_labels": numpy.concatenate(labels),
            "test_images": found["test_batch.bin"][0], "test_labels": found["test_batch.bin"][1]}


def idx(path):
    """The array of an idx file."""
    with gzip.open(path) as file:
        data = file.read()
    axes = data[3]
    shape = struct.unpack(f">{axes}I", data[4:4 + 4 * axes])
    return numpy.frombuffer(data, "u1", offset=4 + 4 * axes).reshape(shape)


def of_idx(folder):
    """Arrays by name, of the four files of MNIST's form."""
    arrays = {}
    for part, file in (("train", "train"), ("test", "t10k")):
        grey = idx(folder / f"{file}-images-idx3-ubyte.gz")
        rim = (SIDE - grey.shape[1]) // 2
        padded = numpy.pad(grey, ((0, 0), (rim, rim), (rim, rim)))
        arrays[f"{part}_images"] = numpy.repeat(padded[..., None], COLOURS, axis=-1)
        arrays[f"{part}_labels"] = idx(folder / f"{file}-labels-idx1-ubyte.gz")
    return arrays


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path, help="the archive, or a folder of idx files")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "data",
                        help="the folder for the arrays")
    args = parser.parse_args()
    arrays = of_idx(args.source) if args.source.is_dir() else of_archive(args.source)
    args.out.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        numpy.save(args.out / f"{name}.npy", numpy.ascontiguousarray(array))
        print(f"{args.out / name}.npy: {' x '.join(map(str, array.shape))}")


if __name__ == "__main__":
    main()
