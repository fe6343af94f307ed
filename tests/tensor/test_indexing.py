"""Reading and writing with indices: PyTorch's results, shapes, views and refusals."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

SHAPE = (2, 3, 4)


def fresh(module, dtype="int64"):
    return module.arange(24, dtype=getattr(module, dtype)).reshape(SHAPE)


def outcome(action, module):
    """A comparable record: values, shape and dtype, or the exception's type."""
    try:
        result = action(module)
    except Exception as error:
        return type(error).__name__
    if isinstance(result, module.Tensor):
        return tuple(result.shape), str(result.dtype).split(".")[1], result.tolist(), result._is_view()
    return result


READS = """
x[0]
x[-1]
x[2]
x[-3]
x[0, 3]
x[0, 0, -5]
x[0, 0, 0]
x[0, 0, 0, 0]
x[...]
x[..., ...]
x[..., 0]
x[0, ..., 1:]
x[..., None, 0]
x[0, 1, 2, None]
x[None]
x[None, None, 0]
x[True]
x[False]
x[True, 0]
x[0, True]
x[1, None, True, :]
x[::-1]
x[::0]
x[1:2:2]
x[:, ::2, 1::3]
x[5:]
x[-1:]
x[:-1]
x[2:1]
x[0:5:1, 5:]
x['a']
x[1.5]
x[1.0:2]
x['a':2]
x[torch.tensor(1):2]
x[np.int64(1)]
x[np.int64(1):]
x[np.array([0, 1])]
x[np.array([True, False])]
x[np.float64(1.0)]
x[[0, 1]]
x[[[0, 1], [0, 1]]]
x[[0, slice(None)]]
x[[True, False]]
x[[slice(0, 1)]]
x[[]]
x[()]
x[range(2)]
x[(0, [1, 2])]
x[torch.tensor(1)]
x[torch.tensor(5)]
x[torch.tensor(True)]
x[torch.tensor(False)]
x[torch.tensor(1.5)]
x[torch.tensor([0.5])]
x[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]
x[torch.tensor([5])]
x[torch.tensor([-3])]
x[torch.tensor([-1, 0])]
x[torch.tensor([True, False, True])]
x[torch.tensor([True, False])]
x[torch.ones(2, 3, dtype=torch.bool)]
x[torch.ones(2, 4, dtype=torch.bool)]
x[:, torch.ones(3, 4, dtype=torch.bool)]
x[..., torch.tensor([True, False, True, True])]
x[torch.ones(2, 3, 4, 2, dtype=torch.bool)]
x[torch.tensor([0, 1], dtype=torch.int32)]
x[torch.tensor([0, 1], dtype=torch.int16)]
x[torch.tensor(1, dtype=torch.int8)]
x[0, :, torch.tensor([0, 1])]
x[torch.tensor([0, 1]), :, torch.tensor([0, 1])]
x[:, torch.tensor([0, 1]), torch.tensor([0, 1])]
x[:, torch.tensor([0, 1]), 0]
x[0, torch.tensor([[0, 1], [1, 2]])]
x[torch.tensor([[0, 1], [1, 0]])]
x[torch.tensor([[0], [1]]), torch.tensor([[0, 1, 2]])]
x[:, None, torch.tensor([0, 1])]
x[torch.tensor([], dtype=torch.int64)]
x[torch.tensor([])]
x[torch.tensor([0]), torch.tensor(1)]
x[torch.tensor(0), torch.tensor(1)]
x[:, torch.tensor(1)]
x[1:, torch.tensor([0, 2]), ::2]
x[torch.tensor([1, 0]), 1:]
x[{}]
x[object()]
x[(1, 'a')]
x[0, 1, 2, 3, 4]
x[2**70]
x[2**70:]
x[:2**70]
x[-2**70:]
x[x > 5]
x[x > 50]
x[x]
torch.tensor(5)[0]
torch.tensor(5)[...]
torch.tensor(5)[None]
torch.tensor(5)[()]
torch.tensor(5)[True]
torch.tensor(5)[:]
torch.tensor(5)[torch.tensor(0)]
torch.tensor(5)[torch.tensor(True)]
torch.empty(0, 3)[0]
torch.empty(0, 3)[:, 0]
torch.empty(0, 3)[torch.tensor([0])]
torch.empty(0, 3)[torch.tensor([], dtype=torch.int64)]
x.T[0]
x.permute(2, 0, 1)[1:3, None, 1]
x.permute(2, 0, 1)[torch.tensor([3, 0]), :, torch.tensor([1, 2])]
""".strip().split("\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", READS)
def test_reading_is_pytorchs(expression):
    def action(module):
        return eval(expression, {"torch": module, "np": np, "x": fresh(module)})

    assert outcome(action, rl) == outcome(action, torch)


WRITES = """
y[0] = 5
y[0] = torch.arange(4)
y[0] = torch.arange(5)
y[0, 0, 0] = 1.7
y[0, 0, 0] = torch.tensor([1])
y[0, 0, 0] = torch.tensor([1, 2])
y[0, 0] = [1, 2, 3, 4]
y[0] = np.arange(4)
y[0] = np.int64(7)
y[0] = None
y[0] = 'a'
y[0] = object()
y[True] = 3
y[False] = 3
y[...] = 3
y[()] = 3
y[torch.tensor([0, 0]), 0, 0] = torch.tensor([7, 8])
y[y > 5] = 0
y[y > 5] = torch.tensor([0, 1])
y[y > 20] = torch.tensor([0, 1, 2])
y[torch.tensor([True, False])] = 5
y[:, [0, 2]] = 5
y[:, [0, 2]] = torch.arange(4)
y[:, [0, 2]] = torch.arange(3)
y[[0, 1]] = torch.ones(2, 3, 4)
y[0] = torch.ones(1, 1, 3, 4, dtype=torch.int64)
y[0] = torch.ones(2, 3, 4, dtype=torch.int64)
y[0] = 2**70
y[0] = 1j
y[[0]] = 1j
y[0] = torch.tensor(2.5)
y[[0]] = torch.tensor(2.5)
y[[0]] = 2.5
y[0, torch.tensor([0, 1])] = torch.tensor(9)
y[1, 1, 1] = True
y[5] = 1
y['a'] = 1
y[::-1] = 1
y[::2] = 1
y[:, 1:, ::3] = torch.tensor([[1], [2]])
del y[0]
y[torch.tensor(1)] = 0
y[np.array([0])] = 0
y[..., np.array([True, False, True, False])] = 0
y[:, 0:0] = 5
y[:, 0:0] = torch.ones(7)
y[[], 0] = 5
y[0] += 1
y[[0, 0]] += 1
y[None] = 4
y[None, [0]] = 4
y[0][1] = 9
y[1:][0, 1] = 9
y.T[0] = 3
y[torch.tensor([[0], [1]]), torch.tensor([0, 2])] = torch.arange(4)
y[torch.tensor([5])] = 1
y[0] = y[1]
""".strip().split("\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("statement", WRITES)
def test_writing_is_pytorchs(statement):
    def action(module):
        y = fresh(module)
        exec(statement, {"torch": module, "np": np, "y": y})
        return y

    assert outcome(action, rl) == outcome(action, torch)


MESSAGES = ["x[2]", "x[0, 3]", "x[0, 0, 0, 0]", "x[::-1]", "x[1.5]", "x[object()]", "x[2**70]", "x[torch.tensor(5)]",
            "torch.tensor(5)[:]", "torch.tensor(5)[0]", "x['a']"]


@pytest.mark.parametrize("expression", MESSAGES)
def test_message_is_about_the_same(expression):
    texts = []
    for module in (rl, torch):
        with pytest.raises((IndexError, TypeError, ValueError)) as caught:
            eval(expression, {"torch": module, "x": fresh(module)})
        texts.append({word.rstrip("s") for word in re.findall(r"[a-z]{4,}|\d+", str(caught.value).lower())})
    assert texts[0] & texts[1], "no word and no number in common with PyTorch's message"


# --- fuzzing ----------------------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def basic_index(draw, ndim):
    bound = st.none() | st.integers(-6, 6)
    one = (
        st.integers(-5, 5)
        | st.builds(slice, bound, bound, st.none() | st.integers(1, 3))
        | st.none()
        | st.booleans().map(lambda _: slice(None))
    )
    items = draw(st.lists(one, max_size=ndim + 1))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def basic_case(draw):
    shape = draw(shapes)
    order = draw(st.permutations(range(len(shape))))
    return shape, order, draw(basic_index(len(shape)))


def build(module, shape, order):
    size = int(np.prod(shape, dtype=int))
    return module.arange(size, dtype=module.float32).reshape(shape).permute(tuple(order))


@settings(max_examples=600, deadline=None)
@given(basic_case())
def test_any_basic_index_reads_as_pytorch_reads(case):
    shape, order, index = case

    def action(module):
        t = build(module, shape, order)
        v = t[index]
        strides = [s for n, s in zip(v.shape, v.stride(), strict=True) if n > 1] if v.numel() else None
        return tuple(v.shape), strides, v.tolist(), v._is_view()

    assert outcome(action, rl) == outcome(action, torch)


@settings(max_examples=300, deadline=None)
@given(basic_case())
def test_any_basic_index_agrees_with_numpy(case):
    shape, order, index = case
    array = np.arange(int(np.prod(shape, dtype=int)), dtype=np.float32).reshape(shape).transpose(order)
    try:
        expected = array[index]
    except IndexError:
        assume(False)
    assume(not (array.ndim == 0 and isinstance(index, (slice, int))))
    assert rl.from_numpy(array)[index].tolist() == expected.tolist()


@settings(max_examples=400, deadline=None)
@given(basic_case(), st.integers(-9, 9), st.booleans())
def test_any_basic_index_writes_as_pytorch_writes(case, value, as_tensor):
    shape, order, index = case

    def action(module):
        t = build(module, shape, order).contiguous()
        t[index] = module.tensor(float(value)) if as_tensor else value
        return t

    assert outcome(action, rl) == outcome(action, torch)


@settings(max_examples=150, deadline=None)
@given(basic_case())
def test_any_basic_index_has_pytorchs_gradient(case):
    shape, order, index = case

    def action(module):
        base = build(module, shape, order).contiguous().requires_grad_()
        v = (base * 2)[index]
        (v * v).sum().backward()
        return base.grad

    ours, theirs = outcome(action, rl), outcome(action, torch)
    assert ours[:3] == theirs[:3]


@st.composite
def advanced_case(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    items, dims = [], 0
    common = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    while dims < len(shape) and len(items) < 5:
        n = shape[dims]
        kind = draw(st.sampled_from(["int", "slice", "none", "long", "long", "mask", "list", "stop"]))
        if kind == "stop":
            break
        if kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            items.append(
                draw(
                    st.builds(
                        slice,
                        st.none() | st.integers(-3, 3),
                        st.none() | st.integers(-3, 4),
                        st.none() | st.integers(1, 2),
                    )
                )
            )
        elif kind == "none":
            items.append(None)
            continue
        elif kind == "long":
            size = tuple(draw(st.sampled_from([1, c])) for c in common)
            flat = draw(
                st.lists(
                    st.integers(-n, n - 1),
                    min_size=int(np.prod(size, dtype=int)),
                    max_size=int(np.prod(size, dtype=int)),
                )
            )
            items.append(("long", np.array(flat, dtype=np.int64).reshape(size)))
        elif kind == "mask":
            items.append(("bool", np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))))
        else:
            items.append(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3)))
        dims += 1
    return shape, items


def as_index(module, items):
    result = []
    for item in items:
        result.append(module.tensor(item[1]) if isinstance(item, tuple) else item)
    return tuple(result)


@settings(max_examples=300, deadline=None)
@given(advanced_case())
def test_any_advanced_index_reads_as_pytorch_reads(case):
    shape, items = case

    def action(module):
        return build(module, shape, range(len(shape)))[as_index(module, items)] + 0

    assert outcome(action, rl) == outcome(action, torch)


@settings(max_examples=200, deadline=None)
@given(advanced_case(), st.integers(-9, 9))
def test_any_advanced_index_writes_as_pytorch_writes(case, value):
    shape, items = case

    def action(module):
        t = build(module, shape, range(len(shape)))
        t = t.clone()
        t[as_index(module, items)] = value
        return t

    assert outcome(action, rl) == outcome(action, torch)


@settings(max_examples=60, deadline=None)
@given(advanced_case())
def test_any_advanced_index_has_pytorchs_gradient(case):
    shape, items = case

    def action(module):
        base = build(module, shape, range(len(shape))).clone().requires_grad_()
        v = (base * 1)[as_index(module, items)]
        (v * v).sum().backward()
        return base.grad

    ours, theirs = outcome(action, rl), outcome(action, torch)
    assert ours[:3] == theirs[:3]


# --- behaviour that samples cannot show -------------------------------------------------------------------------------


def test_views_share_memory_and_version():
    x = rl.zeros(3, 3)
    row = x[1]
    row[0] = 5
    assert x[1, 0].item() == 5 and x._version == row._version == 1
    assert row._base is x and x[1][0]._base is x


def test_writing_through_a_view_reaches_the_gradient():
    x = rl.ones(3, 3, requires_grad=True)
    y = x * 2
    y[0] = 0
    y[1][1] = 7
    y[:, 2] = rl.tensor([1.0, 2.0, 3.0])
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [2, 0, 0], [2, 2, 0]]


def test_gradient_reaches_the_assigned_value():
    value = rl.tensor([1.0, 2.0], requires_grad=True)
    y = rl.zeros(3, 2)
    y[1:] = value
    (y * 3).sum().backward()
    assert value.grad.tolist() == [6.0, 6.0]


def test_writing_to_a_leaf_that_requires_grad_is_refused():
    x = rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x[0] = 1
    with rl.no_grad():
        x[0] = 7
    assert x.detach().tolist() == [7, 1, 1]


def test_writing_to_expanded_memory_is_refused():
    x = rl.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:] = 1


def test_an_index_recorded_for_backward_does_not_follow_later_changes():
    x = rl.ones(4, requires_grad=True)
    i = rl.tensor(1)
    y = x[i] * 3
    i.fill_(2)
    y.backward()
    assert x.grad.tolist() == [0, 3, 0, 0]


def test_iteration_contains_and_reversal():
    x = rl.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x and 9 not in x and rl.tensor(4) in x
    assert [t.item() for t in reversed(rl.tensor([1, 2, 3]))] == [3, 2, 1]
    a, b = rl.tensor([1.0, 2.0], requires_grad=True)
    assert a.grad_fn is not None and b.item() == 2


def test_second_derivatives_pass_through_indexing():
    x = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = rl.autograd.grad((x[1:] ** 3).sum(), x, create_graph=True)
    (gg,) = rl.autograd.grad(g.sum(), x)
    assert gg.tolist() == [0.0, 12.0, 18.0]


def test_meta_tensors_index_by_shape():
    x = rl.empty(4, 5, device="meta")
    assert x[1:3, None, ::2].shape == (2, 1, 3)
    with pytest.raises(IndexError):
        x[9]


def test_subclasses_see_indexing_as_one_call():
    seen = []

    class Watched(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = rl.zeros(3, 3).as_subclass(Watched)
    part = x[1:, 0]
    assert type(part) is Watched and seen == [rl.Tensor.__getitem__] and part.tolist() == [0, 0]
    x[0] = 2
    assert seen[1:] == [rl.Tensor.tolist, rl.Tensor.__setitem__] and x.tolist()[0] == [2, 2, 2]
    assert type(x[rl.tensor([0, 2])]) is Watched


@settings(max_examples=80, deadline=None)
@given(advanced_case(), st.booleans())
def test_gradients_of_any_assignment_are_pytorchs(case, scalar):
    shape, items = case

    def action(module):
        base = build(module, shape, range(len(shape))).clone().requires_grad_()
        index = as_index(module, items)
        size = () if scalar else tuple(base[index].shape)
        value = module.full(size, 2.0).requires_grad_()
        y = base * 3
        y[index] = value
        (y * y).sum().backward()
        return base.grad.tolist(), value.grad.tolist()

    # Repeated indices leave it open which write wins; PyTorch's gradient then counts every one of them, as ours does.
    assert outcome(action, rl) == outcome(action, torch)
