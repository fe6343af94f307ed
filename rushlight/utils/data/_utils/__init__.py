"""What DataLoader is made of: collating, fetching, pinning, the worker loop and its channels.

The names libraries reach for under PyTorch's `torch.utils.data._utils` are here.
"""

import sys as _sys

from ....base.errors import ExceptionWrapper, KeyErrorMessage

IS_WINDOWS = _sys.platform == "win32"
HAS_NUMPY = True  # a dependency of the package

# Seconds between looks at whether the other side still lives, and how long a worker may take to leave when asked.
MP_STATUS_CHECK_INTERVAL = 5.0

from . import collate, fetch, pin_memory, worker

__all__ = [
    "ExceptionWrapper",
    "HAS_NUMPY",
    "IS_WINDOWS",
    "KeyErrorMessage",
    "MP_STATUS_CHECK_INTERVAL",
    "collate",
    "fetch",
    "pin_memory",
    "worker",
]
