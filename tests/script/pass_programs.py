"""Programs for the passes over graphs, one function each, with the passes it goes through; passes_answers.txt holds what
PyTorch 2.13 makes of them."""

# ruff: noqa - old and new ways to write annotations and loops are what is tested
from typing import Dict, List, Optional, Tuple

import rushlight as torch
from rushlight import Tensor

P = "_jit_pass_"
CSE, DCE, CP, PO = [P + "cse"], [P + "dce_graph"], [P + "constant_propagation"], [P + "constant_pooling"]
UN, CU, RM = [P + "loop_unrolling"], [P + "constant_loop_unrolling"], [P + "remove_mutation"]
LT, IN, PE = [P + "lower_all_tuples"], [P + "inline"], [P + "peephole"]
CASES = {}


def case(*passes):
    def keep(function):
        CASES[function.__name__] = (function, list(passes))
        return function

    return keep


@case(*CSE)
def cse_view(x):
    a=torch.tanh(x)
    v=a.view([-1])
    v.add_(1.0)
    b=torch.tanh(x)
    return a+b


@case(*CSE)
def cse_outputs(x):
    a = torch.tanh(x)
    b = torch.tanh(x)
    return a, b


@case(*CSE)
def cse_random(x):
    return torch.rand_like(x) + torch.rand_like(x)


@case(*CP)
def cp_random():
    return torch.rand([2]) + torch.zeros([2])


@case(*CP, *PO)
def pooled_outputs(x):
    a = torch.ones([2])
    b = torch.ones([2])
    return a, b, x


@case(*CP)
def cp_tensors():
    return torch.ones([2]), 1


@case(*DCE)
def dce_print(x):
    y = x + 1
    print(y)
    z = x + 2
    return x


@case(*CSE)
def cse_plain(x,y):
    a=torch.tanh(x+y)
    b=torch.tanh(x+y)
    return a*b


@case(*CSE)
def cse_blocks(x, c: bool):
    a=torch.relu(x)*2
    if c:
        b=torch.relu(x)*2
    else:
        b=torch.relu(x)*3
    for i in range(3):
        b=b+torch.relu(x)
    return a+b


@case(*CSE)
def cse_ints(x, n: int):
    return x.size(0)*n+x.size(0)*n + len(x.shape)+len(x.shape)


@case(*CSE)
def cse_listwrite(x):
    l=[x,x]
    a=len(l)
    l.append(x)
    b=len(l)
    return a+b


@case(*DCE)
def dce_inplace(x):
    y=x+1
    y.add_(2)
    z=x*3
    z.mul_(2)
    return z


@case(*DCE)
def dce_arg(x):
    x.add_(1)
    y=x*2
    return 3


@case(*DCE)
def dce_view(x):
    y=torch.zeros_like(x)
    v=y[0]
    v.fill_(1.0)
    w=torch.zeros_like(x)
    u=w[0]
    u.fill_(1.0)
    return y


@case(*DCE)
def dce_loopcarry(x, n: int):
    a=x
    b=x
    c=x
    for i in range(n):
        a=a+b
        b=b*2
        c=c*3
    return a


@case(*DCE)
def dce_if(x, c: bool):
    if c:
        a=x+1
        b=x+2
    else:
        a=x-1
        b=x-2
    return a


@case(*DCE)
def dce_list(x: List[int]):
    l=[1,2]
    l.append(3)
    x.append(4)
    m=[l]
    m.append(l)
    return x


@case(*DCE)
def dce_dict(x):
    d={"a":x}
    d["b"]=x
    e={"a":x}
    e["c"]=x
    return d


@case(*CP)
def cp_plain(x):
    n=3*4+2
    s="a"+"b"
    l=[1,2,3]
    t=torch.ones([2])*n
    return x.view([n,1])+t, s, len(l), l


@case(*CP)
def cp_written(x):
    t=torch.ones([2])
    t.add_(x)
    u=torch.ones([2])
    return t+u


@case(*CP)
def cp_if(x):
    n=3
    if n>2:
        y=x+1
    else:
        y=x-1
    return y


@case(*CP)
def cp_loop(x):
    y=x
    n=0
    for i in range(0):
        y=y+1
    for i in range(3):
        y=y+n
    return y


@case(*CP)
def cp_listwrite(c: bool):
    l=[1,2]
    if c:
        l.append(3)
    return len(l)


@case(*CP)
def cp_raise(x):
    l=[1,2]
    return x+l[5]


@case(*CP,*PO)
def cpo(x):
    a=torch.ones([2])
    b=torch.ones([2])
    return a+x, b*x, 1.0, 1, True, "1"


@case(*PO)
def po_nested(x, c: bool):
    if c:
        y=x+1
        if c:
            y=y*2
    else:
        y=x*2+1
    return y


@case(*CU)
def cu_nested(x):
    for i in range(2):
        for j in range(2):
            x=x+i*j
    return x


@case(*UN)
def un2(x, n: int):
    s=0
    for i in range(n):
        x=x+i
        s+=i
    return x, s


@case(*RM)
def rm_list(x):
    l=[x]
    l.append(x+1)
    l.append(x+2)
    return torch.cat(l)


@case(*RM)
def rm_listloop(x):
    l=[x]
    for i in range(3):
        l.append(x)
    return torch.cat(l)


@case(*RM)
def rm_listread(x):
    l=[x]
    n=len(l)
    l.append(x)
    return torch.cat(l), n


@case(*RM)
def rm_tensor(x):
    y=x+1
    y.add_(2)
    z=torch.relu(y)
    z.mul_(3)
    y.sub_(1)
    return z, y


@case(*RM)
def rm_view(x):
    y=x+1
    v=y.view([-1])
    v.add_(1)
    y.mul_(2)
    return y


@case(*RM)
def rm_zero(x):
    y=x+1
    y.zero_()
    z=x+2
    z.fill_(3)
    return y, z


@case(*RM)
def rm_if(x, c: bool):
    if c:
        y=x+1
    else:
        y=x+2
    y.add_(1)
    return y


@case(*RM)
def rm_setitem(x):
    l=[x,x]
    l[0]=x+1
    l.insert(0,x)
    return torch.cat(l)


@case(*LT)
def lt_if(x, c: bool):
    t=(x,x)
    if c:
        t=(x+1,x)
    return t[0]+t[1]


@case(*LT)
def lt_arg(t: Tuple[Tensor, int]):
    return t[0]+t[1]


def helper(x, n: int):
    y=x+n
    return y*2


def helper2(x):
    return helper(x,3)+1


@case(*IN)
def in2(x, c: bool):
    if c:
        x=helper2(x)
    return x


@case(*PE)
def pe_opt(x: Optional[Tensor], y: Tensor):
    if x is None:
        r=y
    else:
        r=x+y
    return r+0


@case(P+'inline',P+'cse',P+'constant_propagation',P+'peephole',P+'constant_pooling',P+'dce_graph')
def all1(x, c: bool):
    y=helper(x,2)
    z=helper(x,2)
    l=[1,2,3]
    if len(l)==3:
        y=y+z
    return y+l[1]


PAT='''graph(%a, %b, %c):
  %m : Tensor = aten::mm(%a, %b)
  %o : int = prim::Constant[value=1]()
  %r : Tensor = aten::add(%m, %c, %o)
  return (%r)'''


REP='''graph(%a, %b, %c):
  %r : Tensor = my::addmm(%a, %b, %c)
  return (%r)'''


@case(('rewrite',PAT,REP))
def rw(a,b,c):
    return a.mm(b)+c


@case(('rewrite',PAT,REP))
def rw_used(a,b,c):
    m=a.mm(b)
    return m+c, m


GRAPHS = {
    "mul1": """graph(%x : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %r : int = aten::mul(%x, %o)
  return (%r)
""",
    "fadd0": """graph(%x : float):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %r : float = aten::add(%x, %zf)
  return (%r)
""",
    "tadd0": """graph(%x : Tensor):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::add(%x, %z, %o)
  %q : Tensor = aten::relu(%r)
  return (%q)
""",
    "tmul1": """graph(%x : Tensor):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::mul(%x, %o)
  return (%r)
""",
    "tmul1ff": """graph(%x : Float(2, 3, strides=[3, 1], device=cpu)):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %r : Tensor = aten::mul(%x, %of)
  %q : Tensor = aten::relu(%r)
  return (%q)
""",
    "isnone": """graph(%x : Tensor):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : bool = aten::__is__(%x, %none)
  return (%a)
""",
    "ucast": """graph(%x : Tensor):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Tensor = prim::unchecked_cast(%x)
  %q : Tensor = aten::relu(%a)
  return (%q)
""",
    "uucast": """graph(%x : Tensor?):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Tensor = prim::unchecked_cast(%x)
  %q : Tensor = aten::relu(%a)
  return (%q)
""",
    "numt": """graph(%x : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Tensor = prim::NumToTensor(%x)
  %q : int = aten::Int(%a)
  return (%q)
""",
    "tt": """graph(%x : Tensor):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::t(%x)
  %q : Tensor = aten::t(%a)
  %r : Tensor = aten::relu(%q)
  return (%r)
""",
    "size": """graph(%x : Float(2, 3, strides=[3, 1], device=cpu)):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %q : int[] = aten::size(%x)
  return (%q)
""",
    "size1": """graph(%x : Float(2, 3, strides=[3, 1], device=cpu)):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %q : int = aten::size(%x, %o)
  %d : int = aten::dim(%x)
  %s : int = prim::dtype(%x)
  %v : Device = prim::device(%x)
  %c : bool = prim::is_cuda(%x)
  %n : int = aten::numel(%x)
  %fp : bool = aten::is_floating_point(%x)
  %rg : bool = prim::requires_grad(%x)
  return (%q, %d, %s, %v, %c, %n, %fp, %rg)
""",
    "iftf": """graph(%x : bool):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %q : bool = prim::If(%x)
    block0():
      -> (%t)
    block1():
      -> (%f)
  return (%q)
""",
    "ifft": """graph(%x : bool):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %q : bool = prim::If(%x)
    block0():
      -> (%f)
    block1():
      -> (%t)
  return (%q)
""",
    "len": """graph(%x : int, %y : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %l : int[] = prim::ListConstruct(%x, %y)
  %n : int = aten::len(%l)
  %g : int = aten::__getitem__(%l, %o)
  return (%n, %g)
""",
    "lenu": """graph(%x : int, %y : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %l : int[] = prim::ListConstruct(%x, %y)
  %n : int, %m : int = prim::ListUnpack(%l)
  return (%n, %m)
""",
    "ladd": """graph(%x : int, %y : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %l : int[] = prim::ListConstruct(%x, %y)
  %l2 : int[] = prim::ListConstruct(%y)
  %l3 : int[] = aten::add(%l, %l2)
  return (%l3)
""",
    "lslice": """graph(%x : int, %y : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %l : int[] = prim::ListConstruct(%x, %y, %x)
  %l3 : int[] = aten::slice(%l, %o, %none, %o)
  return (%l3)
""",
    "lenw": """graph(%x : int, %y : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %l : int[] = prim::ListConstruct(%x, %y)
  %l2 : int[] = aten::append(%l, %x)
  %n : int = aten::len(%l)
  return (%n)
""",
    "dict": """graph(%x : int, %y : int):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %k : str = prim::Constant[value="a"]()
  %l : Dict(str, int) = prim::DictConstruct(%k, %y)
  %l2 : int = aten::__getitem__(%l, %k)
  %n : int = aten::len(%l)
  return (%n, %l2)
""",
    "typeas": """graph(%x : Float(2, 3, strides=[3, 1], device=cpu), %y : Float(2, 3, strides=[3, 1], device=cpu)):
  %z : int = prim::Constant[value=0]()
  %o : int = prim::Constant[value=1]()
  %zf : float = prim::Constant[value=0.]()
  %of : float = prim::Constant[value=1.]()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %l2 : Tensor = aten::type_as(%x, %y)
  %r : Tensor = aten::relu(%l2)
  return (%r)
""",
}
for _name, _text in GRAPHS.items():
    CASES[_name] = (_text, [*PE, *DCE])
