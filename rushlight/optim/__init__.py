"""Optimizers and learning rate schedulers, with PyTorch's names, options and state dicts.

An optimizer is a class plus a rule: the new value of one element, from which one kernel for all parameters is made
(rule.py).
"""

from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
