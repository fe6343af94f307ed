"""PyTorch's `nn.modules`: one file per family of layers."""

from .container import Container, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .module import Module

__all__ = ["Container", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
