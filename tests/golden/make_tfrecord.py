"""Writes tests/golden/examples.tfrecord and examples.tfrecord.gz with TensorFlow: five examples of
every kind of feature. Run: python tests/golden/make_tfrecord.py"""
import pathlib

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
