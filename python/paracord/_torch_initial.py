"""What the parameters of PyTorch's modules start from, as the ps draw it by the job's seed. Only
this file and torch.py import PyTorch."""

from __future__ import annotations

import math
from typing import Any, Dict, Optional

import torch

from paracord._arguments import Initializer, ProgramError

_SCALED = ("glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform",
           "lecun_normal", "variance_scaling")
_SAMPLE = 100000  # values that are looked at
_KOLMOGOROV = 3.2  # what a sample of the distribution passes once in 4e8 times

# The modules whose draws are known, by their base that has reset_parameters.
_LAYERS = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
_LOOKUPS = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_RECURRENT = (torch.nn.RNNBase, torch.nn.RNNCellBase)


def with_fans(name: str, initializer: Initializer, tensor: torch.Tensor) -> Initializer:
    """Says the fans of an initializer by PyTorch's axes, outputs first; a ps takes Keras'."""
    spec: Dict[str, Any] = (
        {"name": initializer} if isinstance(initializer, str) else dict(initializer))
    if spec.get("name") not in _SCALED or "fan_in" in spec or "fan_out" in spec:
        return initializer
    if tensor.dim() < 2:
        raise ProgramError(
            f"initial: {name} of shape {tuple(tensor.shape)} has no inputs and outputs, by which "
            f"{spec['name']} is scaled: say zeros, or random_uniform with minval and maxval")
    each = math.prod(tensor.shape[2:])
    return {**spec, "fan_in": tensor.shape[1] * each, "fan_out": tensor.shape[0] * each}


def _uniform(limit: float) -> Dict[str, Any]:
    return {"name": "random_uniform", "minval": -limit, "maxval": limit}


def _drawn_by(module: Any, name: str) -> Optional[Dict[str, Any]]:
    """The distribution that a module of PyTorch draws its parameter `name` from."""
    bases = (*_LAYERS, *_LOOKUPS, *_RECURRENT)
    base: Any = next((base for base in bases if isinstance(module, base)), None)
    if base is None or type(module).reset_parameters is not base.reset_parameters:
        return None
    if base in _RECURRENT:
        return _uniform(1 / math.sqrt(module.hidden_size))
    if name not in ("weight", "bias"):
        return None  # of weight_norm and the like
    if base in _LOOKUPS:
        return {"name": "random_normal", "mean": 0.0, "stddev": 1.0}
    if isinstance(module, torch.nn.Linear):
        return _uniform(1 / math.sqrt(max(module.in_features, 1)))
    turned = isinstance(module, torch.nn.modules.conv._ConvTransposeNd)
    channels = module.out_channels if turned else module.in_channels
    return _uniform(1 / math.sqrt(channels // module.groups * math.prod(module.kernel_size)))


def _may_be_drawn(values: torch.Tensor, spec: Dict[str, Any]) -> bool:
    """Whether the values look like draws (the test of Kolmogorov and Smirnov)."""
    some = values.flatten()[::max(1, values.numel() // _SAMPLE)].double().sort().values
    if spec["name"] == "random_uniform":
        if values.abs().max() > spec["maxval"] * (1 + 1e-6):
            return False
        share = (some / spec["maxval"] + 1) / 2
    else:
        share = (1 + torch.erf(some / math.sqrt(2))) / 2
    steps = torch.arange(len(some) + 1, dtype=torch.float64) / len(some)
    off = torch.maximum((share - steps[:-1]).abs().max(), (share - steps[1:]).abs().max())
    return float(off) * math.sqrt(len(some)) < _KOLMOGOROV


def known_initial(module: torch.nn.Module, name: str,
                  tensor: torch.Tensor) -> Optional[Initializer]:
    """What the parameter or buffer `name` of a module starts from; None where its values are
    neither one number nor, surely, what PyTorch's own module drew and nobody has changed."""
    drawn = _drawn_by(module, name)
    if tensor.is_meta or not tensor.numel():
        return drawn or (None if tensor.is_meta else "zeros")
    values = tensor.detach()
    padding = getattr(module, "padding_idx", None) if isinstance(module, _LOOKUPS) else None
    if padding is not None:
        values = torch.cat([values[:padding], values[padding + 1:]])
        if not values.numel():
            return drawn
    # PyTorch counts what is written to a tensor: the draws, and the zeros of the padding.
    untouched = tensor._version == (1 if padding is None else 2)
    first = float(values.flatten()[0])
    one_drawn = drawn is not None and untouched and values.numel() == 1 and first != 0
    if bool((values == first).all()) and not one_drawn:
        return {"name": "constant", "value": first}
    return drawn if drawn and untouched and _may_be_drawn(values, drawn) else None
