"""Functional graphs as StableHLO text, for XLA and whoever else reads it.

Enters: an `fx` graph of ATen ops and examples of its inputs (or their fakes), or an exported program. Leaves: the text
of a module whose function `main` takes the inputs in order. Rules belong to kinds: pointwise ops follow from their
expressions, reductions from their folds, everything that states its loops from those; library ops have rules by name.
"""

from .modules import module_of, translate

__all__ = ["module_of", "translate"]
