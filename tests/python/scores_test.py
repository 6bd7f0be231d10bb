"""Metrics that NumPy computes over what `paracord predict` writes are those of `paracord evaluate`,
for models that are programs."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
PARACORD = os.environ.get("PARACORD") or os.path.join(ROOT, "build/release/bin/paracord")
HAS_PROGRAMS = importlib.util.find_spec("numpy") is not None and os.path.exists(PARACORD)
HAS_TORCH = HAS_PROGRAMS and importlib.util.find_spec("torch") is not None
TESTED = 301  # the last batch is a small one

LOGISTIC = """
import numpy as np, paracord
def predict(values, x):
    return 1 / (1 + np.exp(-(x @ values["w"] + values["b"])))
@paracord.numpy.program(
    variables=[paracord.Variable("w", (3, 1)), paracord.Variable("b", (1,))],
    predict=predict, outputs=[paracord.Output((1,), "like")])
def loss(values, x, y):
    p = predict(values, x)
    error = (p - y.reshape(-1, 1)) / len(x)
    loss = -np.log(np.where(y.reshape(-1, 1) == 1, p, 1 - p)).mean()
    return loss, {"w": x.T @ error, "b": error.sum(axis=0)}
paracord.serve(loss)
"""

MODULE = """
import torch, paracord
from torch import nn
model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2),
                      nn.Linear(8, 1), nn.Sigmoid())
@paracord.torch.program(model, outputs=[paracord.Output((1,), "like")])
def loss(model, x, y):
    return nn.functional.binary_cross_entropy(model(x).reshape(-1), y.reshape(-1))
paracord.serve(loss)
"""


def rows(count, seed):
    """Features and labels."""
    import numpy

    random = numpy.random.default_rng(seed)
    x = random.normal(size=(count, 3))
    y = (x @ [1.0, -2.0, 0.5] + random.normal(0, 0.7, count) > 0.3).astype(int)
    return x, y


class Scores(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def at(self, name):
        return os.path.join(self.folder, name)

    def write_rows(self, name, x, y=None):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write("a,b,c" + ("" if y is None else ",y") + "\n")
            for i, row in enumerate(x):
                file.write(",".join(map(repr, map(float, row)))
                           + ("" if y is None else f",{y[i]}") + "\n")

    def paracord(self, *command):
        ran = subprocess.run([PARACORD, *command], capture_output=True, text=True, check=False,
                             env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
                             timeout=300)
        self.assertEqual(ran.returncode, 0, f"paracord {' '.join(command)}:\n"
                         + ran.stdout[-2000:] + ran.stderr[-4000:])
        return ran.stdout

    def check(self, program, **more):
        import numpy

        with open(self.at("model.py"), "w", encoding="utf-8") as file:
            file.write(program)
        x, y = rows(TESTED, 2)
        self.write_rows("train.csv", *rows(800, 1))
        self.write_rows("test.csv", x, y)
        self.write_rows("new.csv", x)
        job = {"model": {"program": "process", "command": [sys.executable, "model.py"],
                         "files": ["model.py"]},
               "data": {"train": {"format": "csv", "files": "train.csv",
                                  "features": ["a", "b", "c"], "label": "y"},
                        "test": {"files": "test.csv"}},
               "batch": 32, "epochs": 3, "metrics": ["binary_accuracy"],
               "optimizer": {"name": "adam", "learning_rate": 0.02}, **more}
        with open(self.at("job.json"), "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.paracord("train", self.at("job.json"), "--dir", self.at("run"), "--ps", "2")
        evaluated = json.loads(self.paracord("evaluate", self.at("job.json"), "--dir",
                                             self.at("run"), "--json"))
        self.assertEqual(evaluated["examples"], TESTED)
        os.remove(self.at("train.csv"))
        self.paracord("predict", "--dir", self.at("run"), "--data", self.at("new.csv"), "--out",
                      self.at("scores.csv"), "--columns", "row", "--allow-programs")
        import paracord
        with paracord.predictor(self.at("run"), command=PARACORD) as predict:
            with self.assertRaisesRegex(paracord.ProgramError, "is given allow_programs=True$"):
                predict({"a": [1], "b": [2], "c": [3]})
        with open(self.at("scores.csv"), newline="", encoding="utf-8") as file:
            written = list(csv.DictReader(file))
        self.assertEqual([int(row["row"]) for row in written], list(range(TESTED)))
        p = numpy.array([float(row["like"]) for row in written])
        metrics = evaluated["metrics"]
        self.assertAlmostEqual(metrics["loss"], -numpy.log(numpy.where(y == 1, p, 1 - p)).mean(),
                               delta=1e-6)
        self.assertAlmostEqual(metrics["binary_accuracy"], ((p > 0.5) == (y == 1)).mean(),
                               delta=1e-6)
        # The order of the rows matters: turned around they are no better than chance.
        self.assertGreater(metrics["binary_accuracy"], 0.75)
        self.assertLess(((p[::-1] > 0.5) == (y == 1)).mean(), 0.65)

    @unittest.skipUnless(HAS_PROGRAMS, "no NumPy, or no program paracord")
    def test_of_a_program_of_numpy(self):
        self.check(LOGISTIC, loss="binary_crossentropy")

    @unittest.skipUnless(HAS_TORCH, "no PyTorch, or no program paracord")
    def test_of_a_program_of_pytorch_that_evaluates_its_own_loss(self):
        self.check(MODULE)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy, PyTorch or paracord")
    sys.exit(not program.result.wasSuccessful())
