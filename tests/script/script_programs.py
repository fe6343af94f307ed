"""Programs for the script compiler, one function each; answers.txt holds what PyTorch 2.13 makes of them."""

# ruff: noqa - old and new ways to write annotations and loops are what is tested
import math
from typing import Dict, List, Optional, Tuple, Union

import rushlight as torch
from rushlight import Tensor


def a01(x):
    return 1 + x


def a02(x, y):
    return x + y * 2 - x / y


def a03(x):
    return -(x**2)


def a04(x):
    return not bool(x.sum() > 0)


def a05(x: int, y: int):
    return x < y and y < 10 or x == 3


def a06(x: int):
    return x if x > 0 else -x


def a07(x: int, y: float):
    return x // 2 + x % 3, x / 2, x * y, x**2, y**2


def a08(x: List[int]):
    return [i * 2 for i in x]


def a09(x: List[int]):
    s = 0
    for i in x:
        if i == 3:
            continue
        if i == 7:
            break
        s += i
    return s


def a10(x: int):
    if x > 3:
        return 1
    return 2


def a11(x: int):
    for i in range(x):
        if i == 4:
            return i
    return -1


def a12(x: Optional[int]):
    if x is None:
        x = 3
    return x + 1


def a13(x: Dict[str, int]):
    x["a"] = 1
    return len(x), "a" in x, x.get("b"), list(x.keys())


def a14(x):
    y = x.view(-1, 2)
    return y.size(0), y.shape, y.dtype, y.device


def a15(x):
    x[0, 1:] = 5
    return x[..., 0], x[None], x[1:3, ::2], x[-1]


def a16(a: int, b: int = 3, *, c: float = 2.0):
    return a + b + int(c)


def a17(x):
    y, z = x.chunk(2)
    (a, b), c = (y, z), 3
    return a, b, c


def a18(x):
    while bool(x.sum() < 10):
        x = x * 2
    return x


def a19(n: int):
    out: List[Tensor] = []
    for i in range(1, n, 2):
        out.append(torch.ones(i))
    return torch.cat(out)


def a20(s: str):
    return s.upper() + "x" * 3, s[0], s[1:], len(s), s.split(","), f"{s}-{len(s)}", "%s" % s


def a21(x: float):
    return math.sqrt(x), math.pi, abs(x), round(x), max(x, 1.0), min(1, 2)


def a22(x):
    return torch.zeros(2, 3), torch.zeros([2, 3], dtype=torch.int64), torch.rand_like(x), torch.tensor([1.0, 2.0])


def a23(x):
    return torch.max(x, dim=1)


def a24(x):
    assert x.dim() == 2, "two"
    return x


def a25(x: int):
    if x > 0:
        y = 1
    else:
        raise ValueError("neg")
    return y


def a26(xs: List[Tensor]):
    t = torch.stack(xs)
    for i, x in enumerate(xs):
        t = t + x * i
    for a, b in zip(xs, xs):
        t = t + a + b
    return t


def a27(x):
    x += 1
    x.add_(2)
    x *= 2
    return x


def a28(x: Tuple[int, Tensor]):
    return x[0], x[1] + 1


def a29(x):
    return x.t().contiguous().reshape([-1]).sum(0, keepdim=True)


def helper(x, k: int = 2):
    return x * k


def a30(x):
    return helper(x) + helper(x, k=3)


def a31(x):
    return x == 1, x != 2, x > 1, x >= x, x & x, x | x, ~x, x @ x


def a32(x: bool, y: bool):
    return x and y, x or y, not x, x == y


def a33(x: Optional[Tensor]):
    if x is not None and x.dim() > 1:
        return x + 1
    else:
        return torch.zeros(1)


def a34(x: Union[int, str]):
    if isinstance(x, int):
        return x + 1
    else:
        return 0


def a36(x: List[float]):
    return sum(x), sorted(x), x[::-1], x + [1.0], len(x), x[-1]


def a37():
    return (), [], {}, {"a": 1, "b": 2}, (1,), None


def a39(x: int, y: int):
    r = 0
    while True:
        r += 1
        if r > x:
            break
        elif r > y:
            continue
        r += 1
    return r


def a40(x: Tensor, flag: bool):
    if flag:
        z = x + 1
    else:
        z = x - 1
    return z


def a41(x):
    return float(x.sum()), int(x.sum()), bool(x.sum()), x.sum().item()


def a42(x: int) -> Optional[int]:
    if x > 2:
        return None
    return x


def a43(l: List[List[int]]):
    return [[j + 1 for j in i] for i in l]


def a44(d: Dict[str, Tensor]):
    t = torch.zeros(1)
    for k, v in d.items():
        t = t + v
    for k in d:
        t = t + len(k)
    return t


def a45(x: int):
    return 1 < x < 5


def a46(x):
    return x.unsqueeze(0).expand(3, -1, -1).transpose(0, 1).permute(1, 0, 2)


def a47(x, n: int):
    return x.repeat(n, 1), x.to(torch.float64), x.to("cpu"), x.type_as(x)


def a48(x):
    return torch.einsum("ij,jk->ik", x, x), torch.add(x, x, alpha=2)


def a49(s: str, n: int):
    return "{} {}".format(s, n), str(n), int("3"), float("2.5")


def a50(x):
    y = torch.jit.annotate(List[int], [])
    y.append(1)
    y.extend([2, 3])
    y.insert(0, 5)
    z = y.pop()
    del y[0]
    return y, z, y.index(1), y.count(1)
