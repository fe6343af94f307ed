"""MLIR: programs leave as text that other tools verify, compile and run, and StableHLO of anybody comes back.

Enters: models and exported programs, or StableHLO text. Leaves: modules of the `torch`, `linalg` or `stablehlo`
dialect, or something to call.
"""

from .errors import ParseError, UnsupportedOp

__all__ = ["ParseError", "UnsupportedOp"]
