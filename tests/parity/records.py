"""PyTorch's own op records, by name.

Leaves: the 702 `OpInfo` records of `op_db`, each under `name` or `name.variant`, and the namespace it counts under.
Importing this makes PyTorch's `manual_seed` cheap (see `seed_cpu`).
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core


def seed_cpu(seed: int) -> torch.Generator:
    """What `torch.manual_seed` does, for the CPU alone.

    PyTorch's own also queues a call for each kind of accelerator that is not there, with a formatted stack of the
    caller each time. The records seed before every sample,
    so that under pytest's deep stacks a third of a run went into those strings.
    """
    return torch.default_generator.manual_seed(int(seed))


torch.manual_seed = torch.random.manual_seed = seed_cpu   # `set_rng_seed` of their helpers calls it
# Samples are made by searching the whole call stack for a unittest case, twice a call: most of the time of a sweep.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None


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
