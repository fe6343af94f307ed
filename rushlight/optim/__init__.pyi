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
from rushlight.optim.asgd import ASGD as ASGD
from rushlight.optim.adadelta import Adadelta as Adadelta
from rushlight.optim._adafactor import Adafactor as Adafactor
from rushlight.optim.adagrad import Adagrad as Adagrad
from rushlight.optim.adam import Adam as Adam
from rushlight.optim.adamw import AdamW as AdamW
from rushlight.optim.adamax import Adamax as Adamax
from rushlight.optim.lbfgs import LBFGS as LBFGS
from rushlight.optim._muon import Muon as Muon
from rushlight.optim.nadam import NAdam as NAdam
from rushlight.optim.optimizer import Optimizer as Optimizer
from rushlight.optim.radam import RAdam as RAdam
from rushlight.optim.rmsprop import RMSprop as RMSprop
from rushlight.optim.rprop import Rprop as Rprop
from rushlight.optim.sgd import SGD as SGD
from rushlight.optim.sparse_adam import SparseAdam as SparseAdam
from . import adadelta as adadelta
from . import adagrad as adagrad
from . import adam as adam
from . import adamax as adamax
from . import adamw as adamw
from . import asgd as asgd
from . import lbfgs as lbfgs
from . import lr_scheduler as lr_scheduler
from . import nadam as nadam
from . import optimizer as optimizer
from . import radam as radam
from . import rmsprop as rmsprop
from . import rprop as rprop
from . import rule as rule
from . import sgd as sgd
from . import sparse_adam as sparse_adam
from . import swa_utils as swa_utils
from rushlight.optim._stateless import swap_in_optimizer_params_and_state as swap_in_optimizer_params_and_state
