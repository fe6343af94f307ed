"""The one table of what each backend quantizes: families of operators, and the types it computes each in.

Enters: a backend's name. Leaves: its `BackendConfig`, new at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...._C import float16, float32, qint8, quint4x2, quint8
from . import families
from .backend_config import BackendConfig, DTypeConfig, DTypeWithConstraints

WEIGHTED = DTypeConfig(quint8, quint8, qint8, float32)
PLAIN = DTypeConfig(quint8, quint8)
HALF = DTypeConfig(float16, float16, float16, float16)
DYNAMIC = DTypeConfig(quint8, float32, qint8, float32, True)
DYNAMIC_HALF = DTypeConfig(float16, float32, float16, float32, True)
FLOAT_WEIGHT = DTypeConfig(quint8, quint8, float32, float32)
WEIGHT_ONLY = DTypeConfig(float32, float32, quint8)
WEIGHT_ONLY_4 = DTypeConfig(float32, float32, quint4x2)
WEIGHT_ONLY_SIGNED = DTypeConfig(float32, float32, qint8)
SIGNED = DTypeConfig(qint8, qint8, qint8, float32)
SIGNED_PLAIN = DTypeConfig(qint8, qint8)

# Kernels that multiply by 2^-n with symmetric weights.
COARSE = DTypeWithConstraints(qint8, scale_min_lower_bound=2**-12)
COARSE_WEIGHT = DTypeWithConstraints(qint8, -127, 127, scale_min_lower_bound=2**-12)
SYMMETRIC = DTypeConfig(COARSE, COARSE, COARSE_WEIGHT, float32)
SYMMETRIC_PLAIN = DTypeConfig(COARSE, COARSE)
DYNAMIC_SYMMETRIC = DTypeConfig(COARSE, float32, COARSE_WEIGHT, float32, True)

Rows = tuple[tuple[Callable[..., list], list[DTypeConfig]], ...]
_EMBEDDED: Rows = (
    (families.rnn, [DYNAMIC, DYNAMIC_HALF]),
    (families.embedding, [WEIGHT_ONLY, WEIGHT_ONLY_4]),
)
_FBGEMM: Rows = (
    (families.conv, [WEIGHTED]),
    (families.linear, [WEIGHTED, DYNAMIC, DYNAMIC_HALF]),
    (families.arithmetic, [PLAIN]),
    (families.cat, [PLAIN]),
    (families.default, [PLAIN]),
    (families.fixed, [PLAIN]),
    (families.sharing, [PLAIN]),
    (families.tensor_info, [PLAIN]),
    (families.batch_norm, [PLAIN]),
)


def _changed(rows: Rows, changes: dict[Callable, list[DTypeConfig]]) -> Rows:
    return tuple((family, changes.get(family, dtypes)) for family, dtypes in rows)


_BOTH = [SYMMETRIC_PLAIN, PLAIN]
TABLE: dict[str, Rows] = {
    "native": (*_FBGEMM, (families.layer_norm, [FLOAT_WEIGHT]), *_EMBEDDED),
    "_native_and_fp16": (
        *_changed(_FBGEMM, {
            families.linear: [WEIGHTED, DYNAMIC, DYNAMIC_HALF, HALF],
            families.arithmetic: [PLAIN, HALF],
            families.fixed: [PLAIN, HALF],
            families.sharing: [PLAIN, HALF],
        }),
        (families.layer_norm, [FLOAT_WEIGHT]),
        *_EMBEDDED,
    ),
    "fbgemm": (*_FBGEMM, *_EMBEDDED),
    "x86": (*_changed(_FBGEMM, {families.arithmetic: [WEIGHTED], families.fixed: [WEIGHTED]}), *_EMBEDDED),
    "qnnpack": (
        (families.conv, [SYMMETRIC, WEIGHTED]),
        (families.linear, [SYMMETRIC, WEIGHTED, DYNAMIC, DYNAMIC_HALF]),
        *((family, _BOTH) for family in (families.arithmetic, families.cat, families.default, families.fixed,
                                         families.sharing, families.batch_norm)),
        *_EMBEDDED,
    ),
    "tensorrt": (
        (families.conv, [SIGNED]),
        (lambda dtypes: [families.configure(families.TOP["addmm"], dtypes,
                                            index={"bias": 0, "input": 1, "weight": 2})], [SIGNED]),
        (families.cat, [SIGNED_PLAIN]),
        (families.linear, [SIGNED]),
        (families.arithmetic, [SIGNED]),
        (families.sharing, [SIGNED_PLAIN]),
        (families.tensor_info, [SIGNED_PLAIN]),
    ),
}


def build(name: str, rows: Iterable[tuple[Any, list[DTypeConfig]]] | None = None) -> BackendConfig:
    """The config of a backend of the table, or of `rows`."""
    config = BackendConfig(name)
    for family, dtypes in TABLE[name] if rows is None else rows:
        config.set_backend_pattern_configs(family(list(dtypes)))
    return config
