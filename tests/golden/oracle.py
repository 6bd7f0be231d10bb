"""The Keras that a golden file is made with: Keras 3, or tf_keras (Keras 2) with --keras2."""
import os
import sys

KERAS2 = "--keras2" in sys.argv
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import tensorflow as tf
if KERAS2:
    import tf_keras as keras
else:
    import keras
