"""Writes the small data files of tests/golden with TensorFlow and numpy: examples.tfrecord (five
examples with every kind of feature), arrays.npz, plain and packed, and images.json (files of every
kind, what TensorFlow decodes them to, and resized), and lists.json (lists of varying length, in
examples and in csv, and what TensorFlow parses them to).
Run: python tests/golden/make_data.py"""
import base64
import io
import json
import pathlib

import numpy as np
import tensorflow as tf
from PIL import Image  # TensorFlow reads JPEGs in CMYK and writes none

HERE = pathlib.Path(__file__).parent


def example(i):
    feature = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i + 0.5, -i, 1e-3 * i])),
        "image": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[bytes(range(250 - i, 256 - i))])),
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, -1, 1 << 20])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 3])),
    }
    if i != 3:
        feature["extra"] = tf.train.Feature(float_list=tf.train.FloatList(value=[2.0 * i]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


for name, options in (("examples.tfrecord", ""), ("examples.tfrecord.gz", "GZIP"),
                      ("examples.tfrecord.zlib", "ZLIB")):
    with tf.io.TFRecordWriter(str(HERE / name), options) as writer:
        for i in range(5):
            writer.write(example(i))

arrays = {
    "x": np.arange(24, dtype=np.float64).reshape(4, 3, 2) / 8,
    "user": np.arange(4, dtype=np.int32) * 1000,
    "y": np.array([1, 0, 2, 1], dtype=np.uint8),
}
np.savez(HERE / "arrays.npz", **arrays)
np.savez_compressed(HERE / "arrays_packed.npz", **arrays)

rows, columns = np.mgrid[0:13, 0:17]
rgb = np.stack([rows * 19, columns * 15, (rows * columns) % 256], -1).astype(np.uint8)
grey = rgb[..., :1]
alpha = ((rows + 3 * columns) * 7 % 256).astype(np.uint8)[..., None]
deep = (rgb.astype(np.uint16) << 8) + 128
palette = io.BytesIO()
Image.fromarray((rows % 3 + columns % 2).astype(np.uint8), "P").save(palette, "PNG", transparency=2)
inks = io.BytesIO()
Image.fromarray(rgb).convert("CMYK").save(inks, "JPEG", quality=90)
files = {
    "inks.jpg": tf.constant(inks.getvalue()),
    "rgb.jpg": tf.io.encode_jpeg(rgb, quality=90),
    "progressive.jpg": tf.io.encode_jpeg(rgb, progressive=True),
    "grey.jpg": tf.io.encode_jpeg(grey),
    "rgb.png": tf.io.encode_png(rgb),
    "grey.png": tf.io.encode_png(grey),
    "rgba.png": tf.io.encode_png(np.concatenate([rgb, alpha], -1)),
    "grey_alpha.png": tf.io.encode_png(np.concatenate([grey, alpha], -1)),
    "palette.png": tf.constant(palette.getvalue()),
    "deep.png": tf.io.encode_png(deep),
}
cases = []
for name, file in files.items():
    decoded = (tf.io.decode_png(file, channels=3) if name.endswith("png") else
               tf.io.decode_jpeg(file, channels=3, dct_method="INTEGER_ACCURATE"))
    resized = tf.image.resize(decoded, (5, 23)).numpy()
    cases.append({
        "name": name,
        "file": base64.b64encode(file.numpy()).decode(),
        "rgb": base64.b64encode(decoded.numpy().tobytes()).decode(),
        "resized_5_23": [round(float(v), 3) for v in resized.flatten()],
    })
(HERE / "images.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")

LENGTH = 4
films = [[7, 1 << 40, -3], [], [2**63 - 1], [1, 2, 3, 4], [16777217, 5, 6, 7, 8, 9]]
words = [["a", "b|c"], ["", "d"], [], ["e"] * 4, ["f", "g", "h", "i", "j"]]
shares = [[0.5, 0.25, 1], [], [2], [1, 1, 1, -1], [0.125] * 6]
records = []
for film, word, share in zip(films, words, shares):
    feature = {"film": tf.train.Feature(int64_list=tf.train.Int64List(value=film)),
               "share": tf.train.Feature(float_list=tf.train.FloatList(value=share)),
               "y": tf.train.Feature(float_list=tf.train.FloatList(value=[1]))}
    if word:  # a list without values may as well not be there
        feature["word"] = tf.train.Feature(bytes_list=tf.train.BytesList(
            value=[w.encode() for w in word]))
    records.append(tf.train.Example(
        features=tf.train.Features(feature=feature)).SerializeToString())
parsed = tf.io.parse_example(records, {
    "film": tf.io.RaggedFeature(tf.int64), "word": tf.io.RaggedFeature(tf.string),
    "share": tf.io.RaggedFeature(tf.float32)})


def lists(ragged, pad):
    """The lists are cut behind or in front, and filled up behind."""
    cut = {"post": ragged[:, :LENGTH], "pre": ragged[:, -LENGTH:]}
    result = {}
    for name, kept in cut.items():
        values = kept.to_tensor(default_value=pad, shape=[None, LENGTH]).numpy().flatten()
        there = tf.sequence_mask(kept.row_lengths(), LENGTH, dtype=tf.float32).numpy().flatten()
        result[name] = {"values": [v.decode() if isinstance(v, bytes) else v.item()
                                   for v in values], "present": there.tolist()}
    return result


fields = ["|".join(map(str, film)) for film in films]
split = tf.ragged.map_flat_values(tf.strings.to_number, tf.ragged.boolean_mask(
    split := tf.strings.split(fields, "|"), tf.ragged.map_flat_values(
        lambda v: v != "", split)), tf.int64)
(HERE / "lists.json").write_text(json.dumps({
    "length": LENGTH,
    "records": [base64.b64encode(record).decode() for record in records],
    "film": lists(parsed["film"], 0), "word": lists(parsed["word"], "[P]"),
    "share": lists(parsed["share"], 0),
    "csv": "film,y\n" + "".join(f"{field},1\n" for field in fields),
    "csv_film": lists(split, 0)}, separators=(",", ":")) + "\n")
