"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")


from rushlight import return_types as _return_types
from rushlight.base.shape import layout as _layout, memory_format as _memory_format
from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype
from rushlight.profiler.activities import DeviceType as DeviceType
from rushlight.autograd.function import Function as Function
from rushlight.autograd.gradcheck import GradcheckError as GradcheckError
from rushlight.autograd.function import NestedIOFunction as NestedIOFunction
from rushlight.autograd.graph import Node as Node
from rushlight.profiler.activities import ProfilerActivity as ProfilerActivity
from rushlight.profiler.activities import ProfilerState as ProfilerState
from rushlight.autograd.variable import Variable as Variable
annotations: Any
from . import anomaly_mode as anomaly_mode
from rushlight.autograd.backward import backward as backward
from rushlight.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from rushlight.autograd.grad_mode import enable_grad as enable_grad
from rushlight.autograd.grad_mode import enforce_grad_layout_policy as enforce_grad_layout_policy
from . import forward_ad as forward_ad
from . import function as function
from . import function_levels as function_levels
from . import functional as functional
from rushlight.autograd.backward import grad as grad
from . import grad_mode as grad_mode
from . import gradcheck as gradcheck
from rushlight.autograd.gradcheck import gradgradcheck as gradgradcheck
from . import graph as graph
from . import hooks as hooks
from rushlight.autograd.grad_mode import inference_mode as inference_mode
def is_grad_enabled(*args: Any, **kwargs: Any) -> Any: ...
def is_inference_mode_enabled(*args: Any, **kwargs: Any) -> Any: ...
from rushlight.profiler.session import kineto_available as kineto_available
from . import labels as labels
from rushlight.autograd.grad_mode import no_grad as no_grad
from . import profiler as profiler
from . import profiler_util as profiler_util
from rushlight.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from rushlight.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from rushlight.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from rushlight.autograd.backward import tensor_backward as tensor_backward
from . import variable as variable
