"""Writes the small data files of tests/golden with TensorFlow and numpy: examples.tfrecord (five
examples with every kind of feature) and arrays.npz, plain and packed.
Run: python tests/golden/make_data.py"""
import pathlib

import numpy as np
import tensorflow as tf

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


for name, options in (("examples.tfrecord", ""), ("examples.tfrecord.gz", "GZIP")):
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
