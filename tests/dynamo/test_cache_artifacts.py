"""Kernels packed, taken elsewhere, and loaded there: only whole, and only where they fit."""

from __future__ import annotations

import os
from typing import Any

import pytest

import rushlight as torch
from rushlight.codegen.stored import artifacts, cache


@pytest.fixture(scope="module")
def packed(tmp_path_factory: Any) -> bytes:
    with pytest.MonkeyPatch.context() as patch:      # kernels are written once in a process: one folder for all tests
        patch.setenv("RUSHLIGHT_CACHE", str(tmp_path_factory.mktemp("cache") / "first"))
        torch.compile(lambda x: (x.sin() * 3.25 + x.cos() / 7.5).sum(0))(torch.ones(5, 17))
        found = torch.compiler.save_cache_artifacts()
    assert found is not None and found[1].inductor_artifacts
    return found[0]


@pytest.fixture
def saved(packed: bytes, tmp_path: Any, monkeypatch: Any) -> bytes:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "second"))
    return packed


def refuse(nest: Any) -> bytes:
    raise AssertionError("the kernel was made again")


def test_loaded_kernels_are_not_made_again(saved: bytes) -> None:
    known = dict(cache._LOADED)
    info = torch.compiler.load_cache_artifacts(saved)
    assert info is not None and info.artifacts["inductor"]
    packed = set(info.inductor_artifacts)
    nests = [cache.source_of(k.address) for k in known.values() if k.name in packed]
    on_disk = set(os.listdir(os.environ["RUSHLIGHT_CACHE"]))
    nests = [n for n in nests if n is not None and cache.key_of(n).hex() in on_disk]
    assert nests
    cache._LOADED.clear()
    try:
        for nest in nests:
            assert cache.kernel(nest, refuse).address
    finally:
        cache._LOADED.update(known)


@pytest.mark.parametrize("damage", [
    lambda data: b"",
    lambda data: b"PK" + data,
    lambda data: data[:-1],
    lambda data: data + b"x",
    lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    lambda data: data.replace(artifacts.generator_identity().encode(), b"0" * len(artifacts.generator_identity())),
    lambda data: data.replace(b'"size": ', b'"size":-'),
])
def test_what_does_not_fit_is_left(saved: bytes, damage: Any) -> None:
    with pytest.warns(UserWarning, match="not used"):
        assert torch.compiler.load_cache_artifacts(damage(saved)) is None
    folder = os.environ["RUSHLIGHT_CACHE"]
    assert not os.path.exists(folder) or not os.listdir(folder)


def test_only_bytes() -> None:
    with pytest.raises(TypeError, match="expected bytes"):
        torch.compiler.load_cache_artifacts("text")  # type: ignore[arg-type]
