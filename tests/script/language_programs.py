"""Programs for the language of scripts, with the values they are called with; language_answers.txt holds what PyTorch
2.13 makes of them: graphs, code, results, refusals."""

# ruff: noqa - old and new ways to write annotations and loops are what is tested
import math
from typing import *

import rushlight as torch
from rushlight import Tensor

CASES = {}

def case(*calls):
    """A program and the arguments of its calls."""
    def keep(function):
        CASES[function.__name__] = calls
        return function

    return keep


T = torch.arange(6.0).reshape(2, 3)
GL = [1, 2]

def inner_idx(xs: List[int], i: int) -> int:
    return xs[i]

def outer_idx(xs: List[int], i: int) -> int:
    y = inner_idx(xs, i)
    return y + 1

def opt_default(x: Tensor, scale: Optional[float] = None) -> Tensor:
    if scale is None:
        scale = 2.0
    return x * scale

def list_fn(xs: List[int]) -> List[int]:
    xs.append(4)
    return xs

def helper(x: int) -> int:
    return x + 1

def helper_def(x: int, y: int = 3, z: float = 1.5):
    return x + y * z

def bad_helper(x: int):
    return x.foo

def rec(x: int) -> int:
    if x == 0:
        return 0
    return rec(x - 1)

@case((None, None),(1,2),(1,None))
def r3(x: Optional[int], y: Optional[int]):
    if x is not None and y is not None:
        return x + y
    return 0

@case((None, None),(1,2),(1,None))
def r4(x: Optional[int], y: Optional[int]):
    if x is None or y is None:
        return 0
    return x + y

@case(None, 5)
def r6(x: Optional[int]):
    assert x is not None, "need x"
    y = x + 1
    return y, x

@case(None, 5)
def r10(x: Optional[int]):
    y = 0
    while x is not None and y < 3:
        y += x
        x = None
    return y

@case(1, 2.5)
def r11(x: Union[int, float]):
    if isinstance(x, int):
        return x + 1
    else:
        return int(x) * 10

@case((1,), ("ab",), (None,))
def r12(x: Union[int, str, None]):
    if x is None:
        return "none"
    if isinstance(x, str):
        return x + "!"
    return str(x + 1)

@case((1,), ("ab",), ([1,2],))
def r13(x: Union[int, str, List[int]]) -> int:
    if isinstance(x, (int, str)):
        if isinstance(x, int):
            return x
        return len(x)
    return x[0] + x[1]

@case(([1,2],),([T],))
def r16(x: Any):
    if torch.jit.isinstance(x, List[int]):
        return x[0]
    elif torch.jit.isinstance(x, List[Tensor]):
        return int(x[0].sum())
    return 0

@case(([1, None, 3],))
def r22(xs: List[Optional[int]]):
    s = 0
    for x in xs:
        if x is not None:
            s += x
        else:
            s -= 1
    return s

@case(([1, None, 3],))
def r23(xs: List[Optional[int]]):
    s = 0
    for x in xs:
        if x is None:
            continue
        s += x
    return s

@case((None,), (1,))
def r26(x: Optional[int]):
    y: Optional[int] = None
    if x is not None:
        y = x
    return y

@case((None,), ([1.0],))
def r34(x: Optional[List[float]]):
    if x is None:
        x = []
    x.append(2.0)
    return x

@case((1, None), (None, 1), (None,None))
def r36(a: Optional[int], b: Optional[int]):
    if a is not None:
        c = a
    elif b is not None:
        c = b
    else:
        c = -1
    return c

@case((None,), (2,))
def r38(a: Optional[int]):
    if (a is not None and a > 1) or a is None:
        return 1
    return 0

@case((None,), (2,))
def r40(a: Optional[int]) -> Optional[int]:
    if a is None:
        return None
    return a + 1

@case((1,),)
def r42(a: int) -> Union[int, str]:
    if a > 0:
        return a
    return "neg"

@case((1,),(-1,))
def r43(a: int) -> Any:
    if a > 0:
        return a
    return "neg"

@case(({"a": None, "b": 1},))
def r45(d: Dict[str, Optional[int]]):
    s = 0
    for k, v in d.items():
        if v is not None:
            s += v
    return s

@case((1,None),(None,1.5))
def r49(a: Optional[int], b: Optional[float]):
    assert a is not None or b is not None
    if a is None:
        assert b is not None
        return b
    return float(a)

@case((1.5,), (1,), (True,))
def r50(x: Union[int, float, bool]):
    if isinstance(x, bool):
        return 2
    elif isinstance(x, float):
        return 1
    return x + 100

@case(0,3,10)
def c3(n: int):
    i = 0
    while i < 10:
        i += 1
        if i == n:
            return i
        if i % 2 == 0:
            continue
        i += 1
    return -1

@case(0,3,10)
def c4(n: int):
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return i, j
    return -1, -1

@case(0,3,10)
def c5(n: int):
    if n > 2:
        if n > 5:
            return "big"
        else:
            x = "mid"
    else:
        return "small"
    return x + "!"

@case(([1,2,3],))
def c7(xs: List[int]):
    s = 0
    for i, x in enumerate(xs):
        s += i * x
    for i, x in enumerate(xs, 5):
        s += i * x
    return s

@case(([1,2,3],["a","b"]))
def c9(xs: List[int], ys: List[str]):
    out: List[str] = []
    for i, (x, y) in enumerate(zip(xs, ys)):
        out.append(str(i) + str(x) + y)
    return out

@case(([1,2,3],))
def c10(xs: List[int]):
    out: List[int] = []
    for x in reversed(xs):
        out.append(x)
    return out

@case(({"a":1,"b":2},))
def c13(d: Dict[str, int]):
    ks = ""
    s = 0
    for k in d:
        ks += k
    for k in d.keys():
        ks += k
    for v in d.values():
        s += v
    for k, v in d.items():
        ks += k
        s += v
    return ks, s

@case(((1, 2.0, "x"),))
def c15(t: Tuple[int, float, str]):
    out: List[str] = []
    for i in t:
        out.append(str(i))
    return out

@case(4, 0)
def c20(n: int):
    x = 1
    while n > 0:
        for i in range(3):
            if i == 1:
                continue
            x += i
            if x > 6:
                return x
        n -= 1
    return -x

@case(4, 0)
def c22(n: int):
    if n == 0:
        raise RuntimeError("zero")
    else:
        return n

@case(4, 0)
def c24(n: int):
    if n == 0:
        raise Exception
    return n

@case(4, 0)
def c25(n: int):
    x = 0
    for i in range(n):
        if i == 1:
            x = 1
            if n > 3:
                break
        elif i == 2:
            continue
        else:
            x += 10
        x += 100
    return x

@case((3, 2), (2,3))
def c32(n: int, m: int):
    while n > 0 and m > 0:
        if n > m:
            n -= m
        elif n < m:
            m -= n
        else:
            break
    return n, m

@case(([(1,"a"),(2,"b")],))
def c35(a: List[Tuple[int, str]]):
    s = ""
    n = 0
    for x, y in a:
        s += y
        n += x
    return s, n

@case(([(1,("a", 2.0))],))
def c36(a: List[Tuple[int, Tuple[str, float]]]):
    s = ""
    f = 0.0
    for x, (y, z) in a:
        s += y
        f += z + x
    return s, f

@case((3,),(0,))
def c41(n: int):
    for i in range(n):
        if i == 1:
            return i * 2
    raise RuntimeError("no")

@case(([1,2,3],{"a":1}))
def c44(x: List[int], d: Dict[str,int]):
    del x[0]
    del d["a"]
    return x, d

@case((T,))
def c50(x):
    a, b = x
    return a + b

@case(((1,2,3,4),))
def c51(x: Tuple[int,int,int,int]):
    a, *b, c = x
    return a, b, c

@case((4,),(0,))
def c53(n: int):
    for i in range(n):
        for j in range(n):
            if j == 1:
                break
            if i == 2:
                return i
        if i == 3:
            return -i
    return 100

@case((3, T))
def c59(x,  # type: int
        y,  # type: Tensor
        ):
    # type: (...) -> Tensor
    return y * x

@case((3,))
def c61(x: int):
    y: List[Tuple[int, float]] = []
    d: Dict[str, List[int]] = {}
    y.append((x, 1.0))
    d["q"] = [x]
    return y, d

@case(([1,2],0),([1,2],5))
def b1(xs: List[int], i: int):
    return outer_idx(xs, i)

@case((T,))
def b2(x):
    return opt_default(x), opt_default(x, 3.0), opt_default(x, scale=None)

@case(([1],))
def b5(xs: List[int]):
    ys = list_fn(xs)
    return xs, ys

@case((-1,),(1,))
def b9(x: int):
    if x < 0:
        raise ValueError(f"negative {x}", x)
    return x

@case((T,))
def b11(x):
    return x.view(7)

@case(([3,1,2],))
def b16(xs: List[int]):
    n = len(xs)
    for i in range(n):
        for j in range(0, n - i - 1):
            if xs[j] > xs[j + 1]:
                xs[j], xs[j + 1] = xs[j + 1], xs[j]
    return xs

@case((30,))
def b19(n: int):
    sieve = [True] * (n + 1)
    primes: List[int] = []
    for i in range(2, n + 1):
        if sieve[i]:
            primes.append(i)
            for j in range(i * i, n + 1, i):
                sieve[j] = False
    return primes

@case((T,))
def b24(x):
    out: List[Tensor] = []
    for i, row in enumerate(x):
        out += [row + i]
    return torch.cat(out)

@case(((1, (2.0, "a")),))
def b36(t: Tuple[int, Tuple[float, str]]):
    a, (b, c) = t
    return c, b, a, t[1][0]

@case((T, None), (T, T))
def b44(x: Tensor, m: Optional[Tensor] = None):
    if m is not None:
        x = x * m
    return x

@case((5,))
def b47(n: int):
    x: Union[int, str] = n
    if isinstance(x, int):
        x = "s"
    return x

@case((T,))
def b55(x):
    mask = x > 2
    x[mask] = 0
    return x, mask.sum().item()

@case(([1, 2, 3],))
def b60(xs: List[int]):
    return xs[-2:], xs[:-1], xs[0:10], xs[5:], xs[1:-1:2]

@case((7, 2,), (-7, 2,), (7, -2,), (2, 10,), (5, 0,))
def e5(x: int, y: int):
    return x / y

@case((7, 2,), (-7, 2,), (7, -2,), (2, 10,))
def e9(x: int, y: int):
    return x // y

@case((7, 2,), (-7, 2,), (7, -2,), (2, 10,))
def e13(x: int, y: int):
    return x % y

@case((7, 2,), (-7, 2,), (1, 63,), (1, 64,))
def e38(x: int, y: int):
    return x << y

@case((2,), (4,), (3,))
def e47(x: int):
    return x * 4611686018427387904

@case((2.5,), (0.5,), (-1.5,), (0.0,), (float('inf'),), (float('nan'),), (1e20,))
def e56(x: float):
    return int(x)

@case((2.5,), (0.5,), (-1.5,), (0.0,), (float('inf'),), (float('nan'),), (1e20,))
def e64(x: float):
    return math.log(x)

@case((7, 2,), (-7, 2,), (7, -2,), (2, 10,), (5, 0,))
def e29(x: int, y: int):
    return min(x, y), max(x, y)

@case(([1],))
def e131(x: List[int]):
    x += [4, 5]
    return x

@case(([1,2,3],))
def e130(x: List[int]):
    x[0] += 5
    x[-1] *= 2
    x[1] -= 1
    x[1] //= 2
    return x

@case(([7, 8, 9],), ([1],))
def e139(x: List[int]):
    return x.index(8), x.count(8)

@case(({'a': 1, 'b': 2},))
def e157(x: Dict[str, int]):
    return [k for k in x], [v for v in x.values()], {k: v + 1 for k, v in x.items()}

@case(({'a': 1, 'b': 2},))
def e183(d: Dict[str, int]):
    return d.popitem(), d

@case(('hello world',), ('Hi\tYou',))
def e208(s: str):
    return s.find('l'), s.rfind('l'), s.find('zz'), s.find('l', 4)

@case(('hello world',), ('Hi\tYou',))
def e218(s: str):
    return s.partition('l'), s.rpartition('l')

@case(('hello world',), ('Hi\tYou',))
def e229(s: str):
    return '%s and %d and %f' % (s, 3, 2.5)

@case(('hello world',), ('Hi\tYou',))
def e234(s: str):
    return f'{s} is {len(s)} {1.5} {True} {[1, 2]}'

@case(('hello world',), ('Hi\tYou',))
def e250(s: str):
    return '%.2f' % 2.5

@case((1.0,))
def e258(x: float):
    return str(x), f'{x}', '{}'.format(x), '%s' % x

@case((T,))
def e268(x: Tensor):
    print(x, 1, 2.5, 'a', True, None, [1, 2], (1, 'b'), {'a': 1}, [1.0], [True], ['s'], 1e20, 1+2j, [x.sum()])
    return 1

@case(([1, 2],))
def e155(x: List[int]):
    i = 10
    y = [i for i in x]
    return i, y

@case(((1, 2),))
def e169(x: Tuple[int, int]):
    return x + (3, 'a')

@case(('hello world',), ('Hi\tYou',))
def e223(s: str):
    return 'ell' in s, 'zz' not in s

@case(())
def e199():
    return dict([('a', 1), ('b', 2)])

@case((3,), (7,))
def e112(x: int):
    return 1 < x < 5, 0 <= x <= 3 < 10

@case(({'a': 1, 'b': 2},))
def e187(d: Dict[str, int]):
    return bool(d)

@case()
def x12(x: int):
    return [1, "a"]

@case()
def x14(b: bool):
    if b:
        x = 1
    else:
        x = "a"
    return x

@case()
def x15(b: bool):
    if b:
        x = 1
    return x

@case()
def x18(x: int):
    y = 1
    if x > 0:
        y = "a"
    return y

@case()
def x20(x: int):
    return x + "a"

@case()
def x28(x: List[int]):
    x.append("a")
    return x

@case()
def x31(x: Tuple[int, str]):
    return x[5]

@case()
def x33(x: Tuple[int, str]):
    a, b, c = x
    return a

@case()
def x37(x: int) -> str:
    return x

@case()
def x39(x: int):
    if x > 0:
        return 1
    return "a"

@case()
def x40(x: int):
    if x > 0:
        return 1

@case(3)
def x43(x: int):
    return rec(x)

@case(3)
def x45(x: int):
    return helper("a")

@case(3)
def x46(x: int):
    return bad_helper(x)

@case(3)
def x51(x: int):
    return GL[0] + x

@case(3)
def x57(x: int):
    return {1, 2}

@case(3)
def x59(x: int):
    return sum(i for i in range(x))

@case(3)
def x60(x: int):
    return [i for i in range(x) if i > 1]

@case(3)
def x75(x: int):
    return b"bytes"

@case(3)
def x98(x: int):
    return open("a")

@case(3)
def x121(x: int):
    return [*[1, 2], 3]

@case(3)
def x128(x: int):
    return helper_def(x), helper_def(x, 4), helper_def(x, z=2.0), helper_def(y=1, x=x)

@case(3)
def x129(x: int = 5, y: float = 2.0, s: str = "a", b: bool = True, o: Optional[int] = None):
    return x, y, s, b, o

@case(())
def x130(x: List[int] = [1, 2], t: Tuple[int, int] = (1, 2)):
    return x, t

@case(())
def x132(x: int = "a"):
    return x

@case(())
def x133(x: float = 1):
    return x

@case((3, 4))
def x136(x: int, *, y: int):
    return x + y

@case((T,))
def x155(x):
    return torch.nn.Linear(2, 2)(x)

@case(3)
def x159(x: int):
    y: List[int] = [1.5]
    return y

@case((T,))
def t25(x: Tensor):
    return x + True

@case((T,))
def t43(x: Tensor):
    return x[:, 1]

@case((T,))
def t82(x: Tensor):
    return x.split(1), x.split([1, 1]), x.chunk(2), x.chunk(2, dim=1), torch.split(x, 2, dim=1)

@case((T,))
def t160(x: Tensor):
    y = x.clone()
    y[0] += 1
    y[:, 0] *= 2
    y[0, 0] -= 1
    y[1] /= 2
    return y

@case((T,))
def t162(x: Tensor):
    y = x.clone()
    y += 1
    y *= 2
    y -= x
    y /= 2
    y **= 2
    y %= 3
    return y

@case((T,))
def t76(x: Tensor):
    return x.std(), x.var(0), x.std(dim=1, unbiased=False), x.norm(), x.norm(2, 1)

@case((T,))
def t87(x: Tensor):
    return x.type_as(x.double())

@case((T,))
def t134(x: Tensor):
    return torch.inf, torch.pi, torch.nan, torch.e

@case((T,))
def t155(x: Tensor):
    y = torch.ops.aten.relu(x)
    return y

@case((T,))
def t81(x: Tensor):
    return x.flatten(), x.flatten(0, 1), x.expand(2, 3), x.expand(4, 2, 3), x.repeat(2, 1), x.expand([4, 2, 3]), x.expand_as(x)

@case((T,))
def t161(x: Tensor):
    y = x.clone()
    y[y > 2] += 1
    return y

@case((T,))
def t93(x: Tensor):
    return x.tolist()

@case((T,))
def t117(x: Tensor):
    return torch.add(x, x, alpha=2), torch.sub(x, 1), torch.mul(x, x), torch.div(x, 2, rounding_mode='floor'), torch.pow(x, 2), torch.true_divide(x, 2)
