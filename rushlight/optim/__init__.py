"""Optimizers and learning rate schedulers, with PyTorch's names, options and state dicts.

An optimizer is a class plus a rule: the new value of one element, from which one kernel for all parameters is made
(rule.py).
"""

from . import lr_scheduler, optimizer, swa_utils
from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler", "swa_utils"]
