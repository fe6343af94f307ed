"""Digests: bytes that name other bytes.

Enters: bytes. Leaves: their BLAKE2b digest. `hashlib` offers the same function, but importing it also starts OpenSSL,
which costs a fresh process more than all the digests it needs.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:   # an interpreter that keeps it elsewhere
    from hashlib import blake2b


def digest(data: bytes, size: int = 16) -> bytes:
    """`size` bytes that differ for different data."""
    return blake2b(data, digest_size=size).digest()
