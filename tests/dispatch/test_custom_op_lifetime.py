"""A custom op lives on when nobody keeps the object that defined it:
libraries define ops and call them through `ops`."""

from __future__ import annotations

import gc

import rushlight


def test_a_dropped_definition_stays_callable() -> None:
    rushlight.library.custom_op("lifetime::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    gc.collect()
    rushlight.library.register_autograd("lifetime::twice", lambda ctx, grad: grad * 2)
    x = rushlight.ones(2, requires_grad=True)
    rushlight.ops.lifetime.twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_descriptions_of_ops_whose_extension_is_not_loaded_are_kept_harmless() -> None:
    @rushlight.library.register_fake("some_native_extension::op")
    def fake(x):
        return x

    assert not hasattr(rushlight.ops.some_native_extension, "op")
