"""Functions on parts, plain tensors as copies, and attention over sequences that are spread over processes."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from .parity import both, cases, close, part, plain, run_ours


def _attends(torch: Any, rank: int, ranks: int) -> bool:
    """Attention and its gradients, as one process has them: causal or not, balanced or not, both ways round."""
    from rushlight.distributed import init_device_mesh
    from rushlight.distributed.tensor.experimental import _attention as cp

    mesh = init_device_mesh("cpu", (ranks,))
    attend = torch.nn.functional.scaled_dot_product_attention
    generator = torch.Generator().manual_seed(0)
    for heads, causal, balanced, way in [
        (4, True, True, "allgather"), (4, True, True, "alltoall"), (2, True, False, "alltoall"),
        (4, False, True, "allgather"), (2, True, True, "alltoall"),
    ]:
        cp.set_rotate_method(way)
        cp._cp_options.enable_load_balance = balanced
        shapes = [(2, 4, 4 * ranks, 8), (2, heads, 4 * ranks, 8), (2, heads, 4 * ranks, 8)]
        whole = [torch.randn(s, generator=generator) for s in shapes]
        weight = torch.randn(shapes[0], generator=generator)
        alone = [t.clone().requires_grad_() for t in whole]
        gqa = {"enable_gqa": heads != 4}
        expected = attend(*alone, is_causal=causal, **gqa)
        (expected * weight).sum().backward()
        parts, factor = [t.clone() for t in whole], weight.clone()
        with cp.context_parallel(mesh, buffers=[*parts, factor], buffer_seq_dims=[2] * 4):
            assert parts[0].shape == (2, 4, 4, 8)
            leaves = [t.clone().requires_grad_() for t in parts]
            made = attend(*leaves, is_causal=causal, **gqa)
            (made * factor).sum().backward()
            found = cp.context_parallel_unshard(mesh, [made, *(t.grad for t in leaves)], [2] * 4)
        assert all(p.equal(w) for p, w in zip(parts, whole, strict=True)), "buffers are given back"
        for name, ours, theirs in zip(
            ("out", "query", "key", "value"), found, [expected, *(t.grad for t in alone)], strict=True
        ):
            assert torch.allclose(ours, theirs, atol=1e-5), (name, heads, causal, balanced, way)
    again = attend(*whole, is_causal=True, **gqa)      # outside, attention is plain again
    assert again.shape == shapes[0]
    return True


@pytest.mark.parametrize("ranks", [2, 3])
def test_attention_over_a_spread_sequence_is_that_of_one_process(ranks: int) -> None:
    run_ours(ranks, _attends)


def _refuses(torch: Any, rank: int, ranks: int) -> bool:
    from rushlight.distributed import init_device_mesh
    from rushlight.distributed.tensor.experimental import _attention as cp

    mesh, q = init_device_mesh("cpu", (ranks,)), torch.ones(1, 1, 4, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    with cp.context_parallel(mesh):
        with pytest.raises(NotImplementedError, match="attn_mask"):
            attend(q, q, q, attn_mask=torch.ones(4, 4))
        with pytest.raises(NotImplementedError, match="dropout_p"):
            attend(q, q, q, dropout_p=0.5)
        with pytest.raises(ValueError, match="as many queries as keys"):
            attend(q[:, :, :2], q, q)
    with pytest.raises(ValueError, match="1 buffers but 0"), cp.context_parallel(mesh, buffers=[q]):
        pass
    with pytest.raises(ValueError, match="equal parts"):
        with cp.context_parallel(mesh, buffers=[torch.ones(5)], buffer_seq_dims=[0]):
            pass
    with pytest.raises(NotImplementedError, match="'sideways'"):
        cp.set_rotate_method("sideways")
    return True


def test_says_what_attention_it_has_not() -> None:
    run_ours(2, _refuses)


def _maps(torch: Any, rank: int, ranks: int) -> dict[str, Any]:
    tensors, experimental = part(torch, "distributed.tensor"), part(torch, "distributed.tensor.experimental")
    S, R, P = tensors.Shard, tensors.Replicate, tensors.Partial
    mesh = torch.distributed.init_device_mesh("cpu", (ranks,))
    whole, local_map = torch.arange(24.0).view(4, 6), experimental.local_map
    a = tensors.distribute_tensor(whole, mesh, [S(1)])
    b = tensors.distribute_tensor(whole.t().contiguous(), mesh, [S(0)])
    plain_one = torch.ones(4, 6)

    def gradient(torch: Any) -> Any:
        leaf = tensors.distribute_tensor(whole, mesh, [S(1)]).requires_grad_()
        local_map(lambda t: t * t, out_placements=[S(1)])(leaf).sum().full_tensor().backward()
        return leaf.grad

    def with_copies(torch: Any) -> Any:
        with experimental.implicit_replication():
            return a + plain_one

    return cases(torch, {
        "product": lambda t: local_map(t.mm, out_placements=[P()], in_placements=([S(1)], [S(0)]))(a, b),
        "moved": lambda t: local_map(
            t.mm, out_placements=[S(0)], in_placements=([S(0)], [R()]), redistribute_inputs=True)(a, b),
        "elsewhere": lambda t: local_map(t.mm, out_placements=[P()], in_placements=([S(0)], [S(0)]))(a, b),
        "two values": lambda t: list(local_map(
            lambda x, n: (x * n, x.sum()), out_placements=([S(1)], [P()]), in_placements=([S(1)], None))(a, 3)),
        "too few": lambda t: local_map(lambda x: (x, x), out_placements=[S(1)])(a),
        "no placement": lambda t: local_map(lambda x: x, out_placements=[S(1)], in_placements=(None,))(a),
        "plain only": lambda t: local_map(lambda x: x + 1, out_placements=[S(1)])(plain_one),
        "gradient": gradient,
        "copies": with_copies,
        "no copies": lambda t: a + plain_one,
    })


@pytest.mark.share(2, "ranks against PyTorch")
@pytest.mark.slow
def test_functions_on_parts_as_pytorch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is what they are compared with")
    for ours, theirs in zip(*both(2, _maps), strict=True):
        wrong = [k for k in theirs if not k.endswith("because") and not close(ours[k], theirs[k])]
        assert not wrong, [(k, ours[k], ours.get(f"{k} because"), theirs[k], theirs.get(f"{k} because")) for k in wrong]
    assert plain(3) == 3
