"""What tests of programs in StableHLO share: a plug-in of XLA's, the newest whose wheel is here,
and a folder with a job and its data."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "python"), HERE]
sys.dont_write_bytecode = True  # the folder stays as it is
os.environ["KERAS_BACKEND"] = "jax"  # before Keras is imported

import wheels  # noqa: E402

PROGRAMS = os.environ.get("PARACORD_PROGRAMS", os.path.join(ROOT, "build", "dev", "bin"))
PLUGIN = wheels.newest() if os.path.exists(os.path.join(PROGRAMS, "paracord")) else None
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_JAX = HAS_NUMPY and importlib.util.find_spec("jax") is not None
HAS_KERAS = HAS_JAX and importlib.util.find_spec("keras") is not None
FASHION = "/usr/share/datasets/fashion-mnist"


@unittest.skipUnless(PLUGIN, "no wheel of a plug-in, or no programs of Paracord")
class PluginTest(unittest.TestCase):
    """Each test has a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cls.unpacked = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.unpacked.cleanup)
        cls.device = "pjrt:" + wheels.unpack(*PLUGIN, cls.unpacked.name)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def at(self, name):
        return os.path.join(self.folder, name)

    def run_paracord(self, *command):
        ran = subprocess.run([os.path.join(PROGRAMS, "paracord"), *command], capture_output=True,
                             text=True, check=False, timeout=600)
        self.assertEqual(ran.returncode, 0, f"paracord {' '.join(command)}:\n"
                         + ran.stdout[-2000:] + ran.stderr[-4000:])
        return ran.stdout

    def write_job(self, **keys):
        job = {"model": {"program": "stablehlo", "file": self.at("model.program")},
               "data": {"train": {"format": "npy", "features": self.at("x.npy"),
                                  "labels": self.at("y.npy")}}, "shuffle": False, **keys}
        with open(self.at("job.json"), "w", encoding="utf-8") as file:
            json.dump(job, file)

    def write_data(self, x, y):
        import numpy

        numpy.save(self.at("x.npy"), x)
        numpy.save(self.at("y.npy"), y)

    def compute(self, model, device, weights, x, y, steps=0, column="input_layer"):
        """What `paracord compute` writes by name."""
        import paracord

        paracord.save(self.at("weights"), weights)
        paracord.save(self.at("batch"), {"inputs/" + column: x, "targets": y})
        self.run_paracord("compute", model, "--weights", self.at("weights"), "--batch",
                          self.at("batch"), "--out", self.at("out"), "--steps", str(steps),
                          "--device", device, "--job", self.at("job.json"))
        return paracord.load(self.at("out"))

    def train(self, *flags):
        """The variables that are trained, by name."""
        import paracord

        self.run_paracord("train", self.at("job.json"), "--dir", self.at("dir"), "--fresh",
                          "--device", self.device, *flags)
        return paracord.load(self.at("dir"))


def keras_model(text):
    import paracord.keras  # chooses Keras' backend
    import keras

    assert paracord.keras
    keras.backend.clear_session()
    return keras.models.model_from_json(text)


def values_of(model):
    """The values of a Keras model's variables by the names that they have in jobs."""
    import numpy

    start = len(model.name) + 1
    return {v.path[start:] if v.path.startswith(model.name + "/") else v.path: numpy.asarray(v)
            for v in model.variables if "seed_generator" not in v.path}
