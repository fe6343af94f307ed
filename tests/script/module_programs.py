"""Modules for the script compiler, one class each; module_answers.txt holds the graphs PyTorch 2.13 makes of them."""

# ruff: noqa - old and new ways to write modules are what is tested
from typing import Dict, Final, List, Optional, Tuple

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight import Tensor


class Base(nn.Module):
    def helper(self, x):
        return x + 1

    def forward(self, x):
        return self.helper(x)


def freefn(x, k: float = 2.0):
    return x * k


@torch.jit.script
def sfn(x):
    return x - 1


@torch.jit.interface
class Iface(nn.Module):
    def forward(self, x: Tensor) -> Tensor: pass
    def extra(self, x: Tensor, k: int) -> Tensor: pass


class Impl(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        return x + self.k

    @torch.jit.export
    def extra(self, x: Tensor, k: int) -> Tensor:
        return x * k


class A01(nn.Module):

    def __init__(s):
        super().__init__()
        s.l = nn.Linear(4, 4)
        s.k = 2
        s.f = 0.5
        s.n = 'a'
        s.t = (1, 2.0)
        s.li = [1, 2]
        s.d = {'q': 3}
        s.no = None
        s.b = True

    def forward(self, x):
        y = self.l(x) * self.k + self.f
        if self.b:
            y = y + self.t[0]
        if self.no is None:
            y = y + self.li[1]
        return (y + self.d['q'], self.n)


class A02(nn.Module):
    __constants__ = ['k', 's', 't']

    def __init__(self):
        super().__init__()
        self.k = 3
        self.s = 'x'
        self.t = (1, 2)

    def forward(self, x):
        if self.s == 'x':
            return x * self.k + self.t[1]
        return x


class A04(nn.Module):
    a: List[int]
    b: Dict[str, Tensor]
    c: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.a = []
        self.b = {}
        self.c = None

    def forward(self, x):
        self.a.append(3)
        self.b['k'] = x
        c = self.c
        if c is not None:
            x = x + c
        self.c = x
        return x + len(self.a) + self.b['k']


class A05(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer('buf', torch.ones(4))
        self.register_buffer('np_', torch.ones(4), persistent=False)
        self.register_buffer('nb', None)
        self.w = nn.Parameter(torch.ones(4))
        self.register_parameter('nw', None)

    def forward(self, x):
        self.buf.add_(1)
        self.np_ = self.np_ + 1
        if self.nb is not None:
            x = x * 100
        if self.nw is None:
            x = x + 1
        return x + self.buf + self.np_ + self.w


class A07(nn.Module):

    def __init__(self):
        super().__init__()
        self.m = nn.ModuleDict({'a': nn.Linear(4, 4), 'b': nn.ReLU()})

    def forward(self, x):
        for k, v in self.m.items():
            if k == 'a':
                x = v(x)
        for k in self.m.keys():
            x = x + len(k)
        for k in self.m:
            x = x + 1
        for v in self.m.values():
            x = v(x)
        return self.m['b'](x)


class A08(nn.Module):

    def __init__(self):
        super().__init__()
        self.s = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.a = nn.ModuleList([nn.ReLU(), nn.ReLU()])
        self.b = nn.ModuleList([nn.Tanh(), nn.Sigmoid()])

    def forward(self, x):
        y = self.s(x)
        for a, b in zip(self.a, self.b):
            y = a(y) + b(y)
        for m in self.s:
            x = m(x)
        return y + x + self.s[1](y)


class A09(nn.Module):

    def __init__(self):
        super().__init__()
        self.p = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(3)])
        self.d = nn.ParameterDict({'u': nn.Parameter(torch.ones(4) * 2)})

    def forward(self, x):
        for q in self.p:
            x = x + q
        return x * self.d['u'] + self.p[1]


class A10(Base):

    def helper(self, x):
        return x * 3


class A11(nn.Module):

    @staticmethod
    def st(x, k: int):
        return x * k

    def forward(self, x):
        return self.st(x, 2) + A11.st(x, 3)


class A13(nn.Module):

    @torch.jit.ignore
    def py(self, x: Tensor, n: int) -> Tensor:
        return torch.tensor(x.tolist()) * n

    @torch.jit.ignore
    def py2(self, x):
        return x + 1

    def forward(self, x):
        return self.py(x, 2) + self.py2(x)


class A14(nn.Module):

    @torch.jit.unused
    def un(self, x):
        return x.foo.bar

    def forward(self, x):
        if x.sum() > 1000:
            return self.un(x)
        return x


class A15(nn.Module):

    def __init__(self):
        super().__init__()
        self._v = 2

    @property
    def v(self) -> int:
        return self._v + 1

    @v.setter
    def v(self, q: int):
        self._v = q

    def forward(self, x):
        y = x * self.v
        self.v = 7
        return y + self.v


class A17(nn.Module):

    def __init__(self):
        super().__init__()
        self.fn = freefn
        self.sfn = sfn
        self.act = F.relu
        self.t = torch.tanh

    def forward(self, x):
        return self.fn(x) + self.sfn(x) + self.act(x) + self.t(x) + freefn(x, k=1.0)


class A18(nn.Module):

    def forward(self, x):
        if torch.jit.is_scripting():
            return x + 1
        return x.nonexistent()


class A19(nn.Module):

    def __init__(self):
        super().__init__()
        self.a = 3

    def forward(self, x):
        if hasattr(self, 'a'):
            x = x + getattr(self, 'a')
        if hasattr(self, 'zz'):
            x = x.zzz()
        return x


class A21(nn.Module):

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a
        self.c = nn.Linear(4, 4)
        self.c.weight = self.a.weight

    def forward(self, x):
        return self.a(x) + self.b(x) + self.c(x)


class A22(nn.Module):

    def __init__(self):
        super().__init__()
        self.at = torch.jit.Attribute({}, Dict[str, int])
        self.a2 = torch.jit.Attribute(3.0, float)

    def forward(self, x):
        self.at['k'] = 2
        return x * self.at['k'] + self.a2


class A34(nn.Module):
    m: Iface

    def __init__(self):
        super().__init__()
        self.m = Impl(3)

    def forward(self, x):
        return self.m(x) + self.m.extra(x, 2) + self.m.forward(x)


class A36(nn.Module):

    def __init__(self):
        super().__init__()
        self.s = torch.jit.script(nn.Linear(4, 4))
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return self.s(x) + self.l(x)


class A38(nn.Module):

    def __init__(self):
        super().__init__()
        self.down = None
        self.add_module('opt', None)

    def forward(self, x):
        idn = x
        if self.down is not None:
            idn = self.down(x)
        if self.opt is not None:
            idn = self.opt(x)
        return idn


class A39(nn.Module):

    @torch.jit._overload_method
    def f(self, x: int) -> int:
        pass

    @torch.jit._overload_method
    def f(self, x: Tensor) -> Tensor:
        pass

    def f(self, x):
        return x + 1

    def forward(self, x):
        return self.f(x) + self.f(2)


class A40(nn.Module):

    def __init__(self):
        super().__init__()
        self.l = nn.ModuleList([nn.ModuleList([nn.ReLU(), nn.Tanh()]), nn.ModuleList([nn.Sigmoid()])])

    def forward(self, x):
        for a in self.l:
            for b in a:
                x = b(x)
        return x


class A41(nn.Module):

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        if self.training:
            x = x * 2
        return self.drop(self.l(x))


class A46(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.bn = nn.BatchNorm2d(2)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2, 3)

    def forward(self, x):
        x = x.view(1, 1, 2, 4)
        x = F.relu(self.bn(self.conv(x)), inplace=True)
        x = torch.flatten(self.pool(x), 1)
        return F.log_softmax(self.fc(x), dim=1)


class A50(nn.Module):

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))
        self.cfg = {'a': 1.5, 'b': 2.5}
        self.names = ['p', 'q']
        self.tt = torch.ones(4)
        self.dev = torch.device('cpu')
        self.dt = torch.float64

    def forward(self, x):
        return (x * self.cfg['a']).to(self.dt).to(self.dev) + len(self.names) + self.tt
