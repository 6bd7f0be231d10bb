"""Gradient programs for Paracord: what a worker runs as a child process.

A program declares its variables and computes the gradients of a batch; `serve` gives it to the
worker that started this process. `paracord.numpy.program` makes one of NumPy functions,
`paracord.torch.program` one of a PyTorch model, `paracord.jax.program` one of a JAX function,
`paracord.keras.program` one of a Keras model. The protocol is proto/PROGRAM.md.

`paracord.fit` trains a model of a notebook. What was trained comes back by `load`, `load_into` a
model, or a `predictor` (docs/serve.md).
"""

import importlib
from typing import TYPE_CHECKING

from paracord._files import load, save
from paracord._arguments import ProgramError
from paracord._load_into import load_into
from paracord._predictor import features, predictor
from paracord._program import Batch, Output, Program, Table, Variable
from paracord._serve import serve

__all__ = ["Batch", "Output", "Program", "ProgramError", "Table", "TrainError", "Variable",
           "features", "fit", "load", "load_into", "predictor", "save", "serve"]


if TYPE_CHECKING:
    from paracord import jax as jax, keras as keras, numpy as numpy, torch as torch
    from paracord._fit import fit
    from paracord._fit_run import TrainError
else:
    def __getattr__(name):
        # paracord.torch and the like are imported when they are used: torch takes seconds.
        if name in ("numpy", "torch", "jax", "keras"):
            return importlib.import_module("paracord." + name)
        if name in ("fit", "TrainError"):
            return getattr(importlib.import_module("paracord._fit"), name)
        raise AttributeError(f"module 'paracord' has no attribute {name!r}")
