"""Optimizers and learning rate schedulers, with PyTorch's names, options and state dicts.

Enters: parameters with gradients. Leaves: parameters that were updated in place, and state dicts that PyTorch reads.
Refuses: options outside their range.

An optimizer is a class plus a rule: the new value of one element, from which one kernel for all parameters is made
(rule.py). Each is imported when first used.
"""

from ..base import late
from .optimizer import Optimizer

_LATER = late.by_name({
    "_adafactor": "Adafactor", "_muon": "Muon", "_stateless": "swap_in_optimizer_params_and_state",
    "adadelta": "Adadelta", "adagrad": "Adagrad", "adam": "Adam", "adamax": "Adamax", "adamw": "AdamW", "asgd": "ASGD",
    "lbfgs": "LBFGS", "nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop", "sgd": "SGD",
    "sparse_adam": "SparseAdam",
})
_FILES = ("_functional", "_multi_tensor", "lr_scheduler", "swa_utils")

__all__ = ["Optimizer", "lr_scheduler", "swa_utils", *_LATER]
__getattr__, __dir__ = late.names(globals(), _LATER, (*_FILES, *_LATER.values()))
