"""`torch._dynamo.backends`: the register of compile backends (registry), and backends made of compilers (common)."""

from __future__ import annotations

from .registry import list_backends, lookup_backend, register_backend
