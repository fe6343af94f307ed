"""PyTorch's own op records, by name.

Leaves: the 702 `OpInfo` records of `op_db`, each under `name` or `name.variant`, and the namespace it counts under.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core


def _seed(seed: int) -> None:
    """What their helper does before each sample, less the traceback that each absent accelerator has it format."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


# Samples are made by searching the whole call stack for a unittest case, twice a call: most of the time of a sweep.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None
common_utils.set_rng_seed = _seed


def title(record: Any) -> str:
    """A record's full name, `nn.functional.pad.reflect`."""
    name = record.name.removeprefix("torch.")
    return f"{name}.{record.variant_test_name}" if record.variant_test_name else name


def namespace(record: Any) -> str:
    """The namespace of a record: `nn.functional`, `linalg`, … or `root`."""
    name = record.name.removeprefix("torch.")
    if name.startswith("ops."):
        return "ops.aten"
    return name.rsplit(".", 1)[0] if "." in name else "root"


RECORDS: dict[str, Any] = {title(record): record for record in op_db}
