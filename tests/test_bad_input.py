"""Bad input: PyTorch's class of exception, a message that names the op, and never a crash.

Every case is a line of Python with `m` for the module. All run once in a process of their own, so that a crash is a
failure with a name and not the end of the test run.
"""

from __future__ import annotations

import builtins
import os
import subprocess
import sys

import pytest

import rushlight as rl

CASES = """
m.ones(2) + m.ones(3)
m.ones(2, 3) * m.ones(3, 2)
m.add(m.ones(2), m.ones(3))
m.ones(2).add_(m.ones(2, 2))
m.ones(2, 3).add_(m.ones(4, 2, 3))
m.where(m.ones(2) > 0, m.ones(3), m.ones(2))
m.ones(2).sum(1)
m.ones(2).sum(-2)
m.ones(2).mean(0, True, 3)
m.ones(2, dtype=m.int64).mean()
m.ones(2, 2).sum((0, 0))
m.ones(2).max(3)
m.ones(0).max()
m.ones(0).argmax()
m.ones(0, 2).max(0)
m.ones(2).softmax(1)
m.ones(2).cumsum(1)
m.ones(2, 3).transpose(0, 2)
m.ones(2)[2]
m.ones(2)[-3]
m.ones(2)[0, 0]
m.ones(2)[1.5]
m.ones(2)["a"]
m.ones(2)[m.tensor([5])]
m.ones(2)[m.tensor([-3])]
m.ones(2)[m.tensor([0.5])]
m.ones(2)[m.tensor([True, False, True])]
m.ones(2)[::-1]
m.ones(2)[::0]
m.ones(2).__setitem__(5, 1.0)
m.ones(2).__setitem__(0, m.ones(3))
m.ones(2).__setitem__(m.tensor([7]), 1.0)
m.ones(2).__setitem__(slice(None), "a")
m.ones(2, 3).index_select(0, m.tensor([2]))
m.ones(2, 3).index_select(0, m.tensor([-1]))
m.ones(2, 3).index_select(2, m.tensor([0]))
m.ones(2, 3).index_select(0, m.tensor([0.0]))
m.ones(2, 3).index_select(0, m.tensor([[0]]))
m.ones(2, 3).gather(0, m.tensor([[5]]))
m.ones(2, 3).gather(0, m.tensor([[-1]]))
m.ones(2, 3).gather(0, m.tensor([0]))
m.ones(2, 3).gather(3, m.tensor([[0]]))
m.zeros(2, 3).scatter(0, m.tensor([[9]]), 1.0)
m.zeros(2, 3).scatter_(0, m.tensor([[9]]), m.ones(1, 1))
m.zeros(2, 3).scatter_add_(0, m.tensor([[-5]]), m.ones(1, 1))
m.zeros(2, 3).index_add_(0, m.tensor([4]), m.ones(1, 3))
m.zeros(2, 3).index_add_(0, m.tensor([0, 1]), m.ones(1, 3))
m.zeros(2, 3).index_copy_(0, m.tensor([4]), m.ones(1, 3))
m.zeros(2, 3).index_fill_(0, m.tensor([4]), 1.0)
m.zeros(2, 3).take(m.tensor([6]))
m.zeros(2, 3).put_(m.tensor([6]), m.ones(1))
m.zeros(2, 3).index_put_((m.tensor([0]), m.tensor([3])), m.ones(1))
m.zeros(2, 3).masked_fill(m.ones(3, 2) > 0, 1.0)
m.zeros(2, 3).masked_fill(m.ones(2, 3), 1.0)
m.zeros(2, 3).masked_select(m.ones(2) > 0)
m.zeros(4).masked_scatter_(m.ones(4) > 0, m.ones(2))
m.cat([])
m.cat([m.ones(2), m.ones(2, 2)])
m.cat([m.ones(2, 3), m.ones(3, 2)])
m.cat([m.ones(2)], 1)
m.cat([m.tensor(1.0)])
m.cat(m.ones(2))
m.cat([m.ones(2), 3])
m.stack([])
m.stack([m.ones(2), m.ones(3)])
m.stack([m.ones(2)], 2)
m.ones(2).repeat()
m.ones(2, 2).repeat(2)
m.ones(2).repeat(-1)
m.ones(2).tile(-1)
m.ones(2).roll(1, 3)
m.ones(2).flip(3)
m.ones(2, 2).flip(0, 0)
m.ones(2).tril()
m.ones(2).topk(3)
m.ones(2).topk(-1)
m.ones(2).topk(1, 4)
m.ones(2).sort(3)
m.ones(2).kthvalue(3)
m.ones(2).kthvalue(0)
m.bincount(m.tensor([-1]))
m.bincount(m.ones(2))
m.bincount(m.tensor([1, 2]), m.ones(3))
m.searchsorted(m.ones(2, 3), m.ones(3, 2))
m.ones(2, 3) @ m.ones(2, 3)
m.ones(2) @ m.ones(3)
m.ones(2).view(3)
m.ones(2, 2).t().view(4)
m.ones(2).reshape(-1, 3)
m.ones(2).expand(3)
m.ones(2).unfold(0, 3, 1)
m.ones(2).as_strided((5,), (1,))
m.ones(2).as_strided((2**40,), (2**40,))
m.ones(2).narrow(0, 1, 2**62)
m.ones(2).select(0, 2**62)
m.ones(2).clamp()
m.ones(2).clamp(min="a")
m.ones(2).pow("a")
m.ones(2) ** None
m.ones(2) + "a"
m.ones(2) + None
m.ones(2) + [1, 2]
m.ones(2) < "a"
m.ones(2) & 1
~m.ones(2)
m.ones(2) << 1
m.ones(2, dtype=m.bool) - m.ones(2, dtype=m.bool)
-m.ones(2, dtype=m.bool)
m.ones(2, dtype=m.int64).sigmoid_()
m.ones(2, dtype=m.int64).add_(1.5)
m.ones(2, dtype=m.int64).div_(2)
m.ones(2, dtype=m.bool).add_(1)
m.ones(2, dtype=m.complex64) < 1
m.ones(2, dtype=m.complex64).max()
m.ones(2, dtype=m.complex64).floor()
m.ones(2, dtype=m.int64) // 0
m.ones(2, dtype=m.int64) % 0
m.ones(2).item()
m.ones(0).item()
bool(m.ones(2))
float(m.ones(2))
int(m.ones(0))
len(m.tensor(1.0))
iter(m.tensor(1.0))
m.ones(2).requires_grad_(3)
m.ones(2, dtype=m.int64).requires_grad_()
m.ones(2).backward()
m.ones(2, requires_grad=True).backward()
(m.ones(2, requires_grad=True) * 2).backward(m.ones(3))
m.ones(2).to("cuda:99")
m.ones(2).to("not a device")
m.ones(2, device="meta") + m.ones(2)
m.ones(2, device="meta").item()
m.device("cpu", "a")
m.device("nonsense")
m.zeros(-1)
m.zeros(float("nan"))
m.zeros(2.0)
m.zeros("2")
m.zeros([2, 2.5])
m.zeros(2**62)
m.zeros(2**31, 2**31, 2**31)
m.zeros(2**60, dtype=m.uint8)
m.ones(1).expand(2**62).contiguous()
m.ones(1).repeat(2**60)
m.arange(2**60)
m.full((2**50,), 1.0)
m.eye(2**31)
m.randn(2**60)
m.ones(2).resize_(2**60)
m.ones(2).resize_(-1)
m.empty_strided((2**40,), (2**40,))
m.ones(2, 2).sum(dtype="float")
m.ones(2).sum(foo=1)
m.ones(2).add()
m.ones(2).add(1, 2, 3)
m.ones(2).add(1, beta=2)
m.ones(2).add(other=1, input=2)
m.add(1)
m.add()
m.relu()
m.relu(3)
m.relu("a")
m.relu(m.ones(2), 1, 2)
m.softmax(m.ones(2))
m.sum()
m.sum([1, 2])
m.tensor("a")
m.tensor([[1], [2, 3]])
m.tensor([1, "a"])
m.tensor(None)
m.tensor(object())
m.from_numpy([1])
m.ones(2).float(3)
m.ones(2).clone(3)
m.ones(2).copy_("a")
m.ones(2).copy_(m.ones(3))
m.ones(2).fill_(m.ones(2))
m.ones(1).expand(4).add_(1)
m.ones(1).expand(4).copy_(m.ones(4))
m.ones(4).as_strided((2, 2), (1, 1)).mul_(2)
m.zeros(1).expand(3).zero_()
m.ones(1).expand(4).scatter_(0, m.tensor([0]), 1.0)
m.add(m.ones(4), 1, out=m.ones(1).expand(4))
(lambda x: x[1:].copy_(x[:-1]))(m.arange(5.0))
(lambda x: x[1:].add_(x[:-1]))(m.arange(5.0))
(lambda x: x[:-1].mul_(x[1:]))(m.arange(5.0))
(lambda x: m.add(x[:-1], 1, out=x[1:]))(m.arange(5.0))
(lambda x: m.mul(x, x, out=x))(m.arange(5.0))
(lambda x: x.t().add_(x))(m.ones(3, 3))
(lambda x: m.sum(x, 0, out=x[0]))(m.ones(3, 3))
(lambda x: x.index_copy_(0, m.tensor([0]), x[:1]))(m.ones(3, 3))
m.add(m.ones(2), 1, out=m.ones(2, dtype=m.int64))
m.add(m.ones(2, requires_grad=True), 1, out=m.ones(2))
m.sum(m.ones(2), out=m.ones(2, device="meta"))
m.max(m.ones(2, 2), 0, out=m.ones(2))
m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([0, 3]))
m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([0, -1]))
m.nn.functional.nll_loss(m.ones(2, 3), m.tensor([0, 3]))
m.nn.functional.layer_norm(m.ones(2, 3), (2,))
m.nn.functional.linear(m.ones(2, 3), m.ones(2, 2))
m.normal(0.0, -1.0, (2,))
m.ones(2).uniform_(2, 1)
m.ones(2).bernoulli_(2.0)
m.bernoulli(m.ones(2) * 3)
m.randint(5, 1, (2,))
m.randint(0, 0, (2,))
m.randperm(-1)
m.multinomial(m.ones(3), 5)
m.multinomial(m.ones(3) * -1, 1)
m.multinomial(m.zeros(3), 1)
m.manual_seed("a")
m.Generator(device="nonsense")
m.set_num_threads(0)
m.set_num_threads("a")
m.promote_types(m.float32, 3)
m.result_type(m.ones(2), "a")
m.autograd.grad(m.ones(2), m.ones(2))
m.autograd.grad(m.ones((), requires_grad=True) * 2, m.ones(2, requires_grad=True))
m.einsum("ij,jk", m.ones(2, 3), m.ones(2, 3))
m.einsum("i->j", m.ones(2))
m.var(m.ones(2), 5)
m.ones(2).norm(p="nonsense")
m.ones(2, 2).norm(2, 5)
m.quantile(m.ones(2), 1.5)
m.cumsum(m.ones(2))
m.tril_indices(-1, 2)
m.ones(2).unflatten(0, (3, -1))
m.ones(2, 3).movedim(0, 4)
m.view_as_complex(m.ones(3))
m.ones(2).view(m.complex128)
m.ones(2).set_(m.ones(2).untyped_storage(), 0, (9,), (1,))
m.ones(2).untyped_storage().resize_(-1)
m.ones(2).untyped_storage()[100]
m.ones(3).split([1, 1])
m.ones(3).chunk(-1)
m.ones(2).scatter_reduce(0, m.tensor([0]), m.ones(1), "nonsense")
m.ones(3).unique(dim=2)
m.histc(m.ones(2), 0)
m.lerp(m.ones(2), m.ones(3), 0.5)
m.addcmul(m.ones(2), m.ones(3), m.ones(2))
m.clamp(m.ones(2), m.ones(3))
m.nextafter(m.ones(2, dtype=m.int64), m.ones(2, dtype=m.int64))
m.bitwise_and(m.ones(2), 1)
m.gcd(m.ones(2), m.ones(2))
m.logical_and(m.ones(2), m.ones(3))
m.lgamma("a")
m.polygamma(-1, m.ones(2))
m.heaviside(m.ones(2), m.ones(2, dtype=m.float64))
m.frexp(m.ones(2, dtype=m.int64))
m.nn.Parameter(3)
m.nn.Parameter(m.ones(2, dtype=m.int64))
m.frombuffer(b"123", dtype=m.float32)
m.frombuffer(b"", dtype=m.uint8)
m.asarray("a")
m.from_dlpack(3)
m.scalar_tensor([1])
m.is_nonzero(m.ones(2))
m.ones(2).stride(5)
m.ones(2).size(5)
m.ones(2).T[5]
m.ones(2, requires_grad=True).numpy()
m.ones(2, requires_grad=True).add_(1)
m.set_default_dtype(m.int64)
m.Size([1.5])
m.finfo(m.int64)
m.tensordot(m.ones(2), m.ones(2), None)
m.ones(4).tensor_split(m.tensor([[1]]))
m.nn.functional.cross_entropy(m.ones(2, 3), m.ones(4))
m.ones(2).to(None)
m.ones(2, dtype=m.uint8).polygamma_(1)
m.ones(2, dtype=m.bool).igamma_(m.ones(2))
m.ones(4).tensor_split(m.tensor([1.0]))
m.ones(2, 3).view(None)
m.iinfo(m.float32)
""".strip().splitlines()

RUNNER = """
import sys, warnings, faulthandler
faulthandler.enable()
warnings.simplefilter("ignore")
if sys.argv[1] == "torch":
    import torch as m
else:
    import rushlight as m
for line in sys.stdin.read().splitlines():
    print("TRY", line, flush=True)
    try:
        value = eval(line)
        print("OK", repr(value)[:60].replace(chr(10), " "), flush=True)
    except BaseException as error:
        print("ERR", type(error).__name__, str(error).replace(chr(10), " ")[:300], flush=True)
"""


def run(which: str, lines: list[str]) -> dict[str, tuple[str, str]]:
    """Outcome of every line: the exception's class (or "OK") and its message."""
    here = os.path.dirname(os.path.dirname(rl.__file__))
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, which],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": here},
        timeout=280,
    )
    outcomes: dict[str, tuple[str, str]] = {}
    line = ""
    for text in done.stdout.splitlines():
        word, _, rest = text.partition(" ")
        if word == "TRY":
            line = rest
        elif word == "OK":
            outcomes[line] = ("OK", rest)
        elif word == "ERR":
            kind, _, message = rest.partition(" ")
            outcomes[line] = (kind, message)
    assert done.returncode == 0, f"crashed with {done.returncode} in: {line}\n{done.stderr[-1500:]}"
    return outcomes


@pytest.fixture(scope="module")
def ours() -> dict[str, tuple[str, str]]:
    return run("rushlight", CASES)


def test_nothing_crashes_and_every_refusal_says_something(ours: dict[str, tuple[str, str]]) -> None:
    assert list(ours) == list(dict.fromkeys(CASES))
    silent = [line for line, (kind, message) in ours.items() if kind != "OK" and len(message) < 8]
    assert not silent, silent
    # An AssertionError is PyTorch's own answer to a missing CUDA device.
    ugly = [
        line
        for line, (kind, text) in ours.items()
        if "CUDA" not in text
        and kind
        in (
            "AssertionError",
            "SystemError",
            "UnboundLocalError",
            "KeyError",
            "ZeroDivisionError",
            "NameError",
            "RecursionError",
            "MemoryError",
        )
    ]
    assert not ugly, [(line, ours[line]) for line in ugly]


# Where we answer and PyTorch refuses, or the other way round, with the reason.
DIFFERENT = {
    "~m.ones(2)": "bitwise_not refuses with NotImplementedError, the operator in PyTorch with TypeError",
    'm.ones(2).to("cuda:99")': "no such device type is registered here",
    "m.ones(4).as_strided((2, 2), (1, 1)).mul_(2)": "PyTorch writes some elements twice",
    "m.zeros(1).expand(3).zero_()": "PyTorch writes one element three times",
    "(lambda x: x.index_copy_(0, m.tensor([0]), x[:1]))(m.ones(3, 3))": "sources are read before anything is written",
    'm.sum(m.ones(2), out=m.ones(2, device="meta"))': "PyTorch has no out= without dim",
    'm.set_num_threads("a")': "a wrong type is a TypeError",
}


def test_the_class_is_pytorchs(ours: dict[str, tuple[str, str]]) -> None:
    pytest.importorskip("torch")
    theirs = run("torch", CASES)
    wrong = []
    for line in CASES:
        want, got = theirs[line], ours[line]
        parents = {c.__name__ for c in getattr(builtins, got[0], Exception).__mro__}
        if (
            want[0] != got[0]
            and not (want[0] != "OK" and want[0] in parents - {"Exception", "BaseException", "object"})
            and line not in DIFFERENT
        ):
            wrong.append(f"{line}\n    wanted {want[0]}: {want[1][:120]}\n    got    {got[0]}: {got[1][:120]}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def test_messages_name_the_op_and_the_values() -> None:
    for call, words in {
        lambda: rl.ones(2) + rl.ones(3): ("add", "2", "3"),
        lambda: rl.ones(2, 3) @ rl.ones(4, 3): ("matmul", "2x3", "4x3"),
        lambda: rl.ones(2).sum(4): ("sum", "4"),
        lambda: rl.ones(2, 3).index_select(0, rl.tensor([7])): ("index_select", "7"),
        lambda: rl.ones(2).add(1, beta=2): ("add", "beta"),
        lambda: rl.zeros(3, -1): ("zeros", "-1"),
        lambda: rl.ones(2).view(5): ("view", "[5]", "2"),
        lambda: rl.nn.functional.cross_entropy(rl.ones(1, 3), rl.tensor([8])): ("cross_entropy", "8", "3"),
        lambda: rl.ones(1).expand(4).add_(1): ("add_",),
        lambda: rl.cat([rl.ones(2, 3), rl.ones(3, 2)]): ("cat", "3", "2"),
        lambda: rl.ones(2, dtype=rl.int64).add_(1.5): ("add", "float32", "int64"),
    }.items():
        with pytest.raises(Exception) as caught:
            call()
        for word in words:
            assert word in str(caught.value), (word, str(caught.value))


def test_a_failed_call_changes_nothing() -> None:
    x = rl.arange(5.0)
    for bad in (
        lambda: x.add_(rl.ones(3)),
        lambda: x.__setitem__(rl.tensor([9]), 1.0),
        lambda: x.scatter_(0, rl.tensor([9]), 1.0),
        lambda: x.view(7),
    ):
        version = x._version
        with pytest.raises((RuntimeError, IndexError)):
            bad()
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert x._version <= version + 1


def test_empty_inputs_of_ops_with_elements() -> None:
    assert rl.diag(rl.zeros(0), 2).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert rl.diag_embed(rl.zeros(3, 0), 1).tolist() == [[[0.0]]] * 3
    assert rl.diagflat(rl.zeros(2, 0), -1).tolist() == [[0.0]]
    assert rl.diag(rl.ones(4).narrow(0, 4, 0), 1).tolist() == [[0.0]]


def test_storage_shrunk_under_a_tensor() -> None:
    code = """
import rushlight as rl
for size in (8, 0):
    x = rl.ones(1000)
    x.untyped_storage().resize_(size)
    for use in (lambda: x + 1, lambda: x.sum(), lambda: x.tolist(), lambda: x[900].item(), lambda: x @ x,
                lambda: x.clone(), lambda: x.softmax(0), lambda: x.cumsum(0), lambda: x.sort(), lambda: x.zero_(),
                lambda: rl.cat([x, x]), lambda: x.numpy().sum(), lambda: x.view(10, 100).t().contiguous()):
        try:
            use()
        except (RuntimeError, BufferError, ValueError):
            continue
"""
    here = os.path.dirname(os.path.dirname(rl.__file__))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": here},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-800:]
