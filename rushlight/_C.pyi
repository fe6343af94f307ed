"""Made by tools/make_stubs.py. Do not edit: run the tool."""

from typing import Any

from rushlight import Tensor as Tensor
from rushlight import Generator as Generator
from rushlight import UntypedStorage as UntypedStorage
from rushlight import device as device
from rushlight import dtype as dtype

def __getattr__(name: str) -> Any: ...
