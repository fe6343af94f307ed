"""Loop nests as text of C-like languages, for chips whose compiler takes a language of its own."""

from .printer import ALONE, Printer, strides_of, with_dims
from .tables import OPENCL, PLAIN_C, Table
from .wgsl import WGSL, WgslPrinter

__all__ = ["ALONE", "OPENCL", "PLAIN_C", "WGSL", "Printer", "Table", "WgslPrinter", "strides_of", "with_dims"]
