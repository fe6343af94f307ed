"""`torch._dynamo.backends`: the register of compile backends (registry), and backends made of compilers (common)."""

from __future__ import annotations

from .registry import (
    EAGER,
    check_name,
    list_backends,
    lookup,
    lookup_backend,
    refuse_absent,
    register_backend,
    run_as_it_is,
)
