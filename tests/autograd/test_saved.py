"""Saved tensors: versions, hooks, release, and what nodes show of them."""

from __future__ import annotations

import threading

import pytest

import rushlight as rl
from rushlight.autograd import grad
from rushlight.autograd.graph import increment_version, saved_tensors_hooks


def leaf(values):
    return rl.tensor(values, dtype=rl.float64).requires_grad_()


def test_saved_attributes() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    node = (x * y).grad_fn
    assert node._saved_self is x and node._saved_other is y
    z = x.exp()
    saved = z.grad_fn._saved_result
    assert saved.tolist() == z.tolist() and saved.grad_fn is z.grad_fn
    with pytest.raises(AttributeError):
        node._saved_nothing  # noqa: B018
    assert "_saved_other" in dir(node)


def test_saved_output_survives_its_tensor() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    z = y * 2
    node, data = y.grad_fn, y.tolist()
    del y
    assert node._saved_result.tolist() == data
    (g,) = grad(z.sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    assert g.tolist() == pytest.approx([2 * v for v in data]) and h.tolist() == pytest.approx([2 * v for v in data])


def test_saved_output_modified_after_its_tensor_died() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    alias, z = y.detach(), y * 2
    del y
    alias.add_(1)
    with pytest.raises(RuntimeError, match="ExpBackward0.*modified"):
        z.sum().backward()


def test_message_names_op_shape_and_versions() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.add_(1).add_(1)
    with pytest.raises(RuntimeError, match=r"ExpBackward0.*\[2\].*version 2; expected version 0.*anomaly"):
        y.sum().backward()


def test_increment_version_is_noticed() -> None:
    x = leaf([1.0])
    y = x * 1
    z = y * y
    increment_version([y])
    with pytest.raises(RuntimeError, match="version 1; expected version 0"):
        z.backward()


def test_list_arguments_are_checked_too() -> None:
    x = leaf([1.0])
    a = x * 1
    y = rl.cat([a, a]) * 2 if hasattr(rl, "cat") else a * 2
    y.sum().backward()
    assert x.grad is not None


def test_hooks_nest_innermost_wins() -> None:
    log = []

    def named(name):
        return saved_tensors_hooks(
            lambda t: (log.append(f"pack {name}"), t)[1], lambda t: (log.append(f"unpack {name}"), t)[1]
        )

    x = leaf([1.0])
    with named("outer"):
        y = x.exp()
        with named("inner"):
            z = y.sin()
    (z + y).sum().backward()
    assert log == ["pack outer", "pack inner", "unpack inner", "unpack outer"]


def test_hooks_see_detached_tensors_and_keep_history() -> None:
    seen = []
    x = leaf([0.5])
    y = x * 2
    with saved_tensors_hooks(lambda t: (seen.append(t.requires_grad), t.clone())[1], lambda t: t):
        z = y * y
    (g,) = grad(z.sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    assert seen == [False, False] and g.tolist() == [4.0] and h.tolist() == [8.0]


def test_rules_that_ask_for_requires_grad_work_with_hooks() -> None:
    a, b = leaf([[1.0, 2.0]]), leaf([[3.0], [4.0]])
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = a @ b
    y.sum().backward()
    assert a.grad.tolist() == [[3.0, 4.0]] and b.grad.tolist() == [[1.0], [2.0]]


def test_pack_hook_may_not_modify() -> None:
    x = leaf([1.0])
    y = x * 1
    with pytest.raises(RuntimeError, match="pack hook"), saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        y * y  # noqa: B018


def test_hooks_belong_to_the_thread() -> None:
    seen = []

    def work() -> None:
        leaf([1.0]).exp().sum().backward()

    with saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == []


def test_metadata_only_when_data_is_not_needed() -> None:
    import weakref

    x = leaf([1.0, 2.0])
    h = x * 2
    y = h.sum()
    gone = weakref.ref(h)
    del h
    assert gone() is None
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_describe_gradients_a_node_receives() -> None:
    node = (leaf([[1.0, 2.0]]) * 2).grad_fn
    (meta,) = node._input_metadata
    assert tuple(meta.shape) == (1, 2) and meta.dtype is rl.float64 and meta.numel() == 2
    assert meta.zeros().tolist() == [[0.0, 0.0]] and tuple(meta.stride()) == (2, 1)


def test_only_needed_gradients_are_asked_for() -> None:
    x, w = leaf([[1.0, 2.0]]), rl.tensor([[3.0], [4.0]], dtype=rl.float64)
    y = x @ w
    (g,) = grad(y.sum(), x)
    assert g.tolist() == [[3.0, 4.0]]


def test_node_metadata_is_a_dict() -> None:
    node = (leaf([1.0]) * 2).grad_fn
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}
