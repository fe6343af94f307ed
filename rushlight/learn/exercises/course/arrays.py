"""Steps 6 to 14: arrays as a storage with strides, views, broadcasting, loops."""

from types import ModuleType
from typing import Any

from ...exercise import Exercise


def refused(function: Any, *case: Any) -> Any:
    """A result, or the name of the exception that refuses."""
    try:
        return function(*case)
    except (IndexError, ValueError) as wrong:
        return type(wrong).__name__


def looked_at(answer: ModuleType, nested: Any, index: Any) -> Any:
    """An array made of lists, and the same storage seen in another way."""
    a = answer.array(nested)
    other = answer.Array(list(range(12)), (2, 3), (1, 4), 1)
    return (
        a.shape,
        a.strides,
        a.offset,
        a.storage,
        a.flat(),
        a.tolist(),
        a[index],
        other.tolist(),
        other[1, 2],
        other.flat(),
    )


def viewed(answer: ModuleType, nested: Any, one: Any, other: Any, index: Any) -> Any:
    """A transposed and a selected view, before and after the storage changes."""
    a = answer.array(nested)
    turned, chosen = answer.transpose(a, one, other), answer.select(a, one, index)
    before = [turned.tolist(), turned.shape, chosen.tolist(), chosen.shape]
    a.storage[:] = [value + 100 for value in a.storage]
    again = answer.select(turned, other, index)
    return before, turned.tolist(), chosen.tolist(), again.tolist(), a.shape


def expanded(answer: ModuleType, nested: Any, shape: Any) -> Any:
    a = answer.array(nested)
    wide = answer.expand(a, shape)
    return wide.tolist(), wide.shape, wide.strides, wide.storage is a.storage


MATRIX = [[1, 2, 3], [4, 5, 6]]
CUBE = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]

ARRAYS = (
    Exercise(
        title="Strides",
        title_zh="步长",
        text="""From here on numbers live in a flat list, the storage. Return the strides of a fresh array as a tuple:
        how many places of the storage lie between neighbours along each dim. The last dim's stride is 1.""",
        solution='''
        def strides_of(shape):
            """The strides of a fresh array."""
            strides = []
            step = 1
            for size in reversed(shape):
                strides.insert(0, step)
                step *= size
            return tuple(strides)
        ''',
        hint="Every stride is the product of all sizes behind it.",
        cases=lambda: [((),), ((4,),), ((2, 3),), ((2, 3, 4),), ((1, 5, 1),)],
    ),
    Exercise(
        title="From an index to a place",
        title_zh="从下标到位置",
        text="""Return the place in the storage of an index (a tuple, one number per dim). Negative numbers count from
        the end. Raise IndexError where a number is outside its dim, or where there are not as many numbers as
        dims.""",
        solution='''
        def place(index, shape, strides, offset):
            """Where an element is in the storage."""
            if len(index) != len(shape):
                raise IndexError(f"{len(shape)} numbers are needed")
            at = offset
            for number, size, stride in zip(index, shape, strides):
                if not -size <= number < size:
                    raise IndexError(f"{number} is outside of {size}")
                at += number % size * stride
            return at
        ''',
        hint="In Python `-1 % size` is `size - 1`.",
        cases=lambda: [
            ((), (), (), 0),
            ((), (), (), 5),
            ((2,), (3,), (1,), 0),
            ((3,), (3,), (1,), 0),
            ((-3,), (3,), (2,), 1),
            ((-4,), (3,), (2,), 1),
            ((1, 2), (2, 3), (3, 1), 0),
            ((1, -1), (2, 3), (1, 2), 4),
            ((1,), (2, 3), (3, 1), 0),
            ((0, 3), (2, 3), (3, 1), 0),
            ((0, 0, 0), (1, 1), (1, 1), 0),
        ],
        probe=lambda answer, *case: refused(answer.place, *case),
    ),
    Exercise(
        title="An array",
        title_zh="数组",
        text="""Write a class `Array(storage, shape, strides=None, offset=0)` that keeps these as attributes (shape
        and strides as tuples; fresh strides where None). `a[index]` takes a tuple. `flat()` returns all elements as a
        list in the order of their indices, `tolist()` as nested lists (a plain number for no dims). `array(nested)`
        makes an Array of nested lists of equal lengths, or of a number.""",
        solution='''
        class Array:
            """A window on a flat list."""

            def __init__(self, storage, shape, strides=None, offset=0):
                """A view of a storage; fresh strides unless some are given."""
                self.storage = storage
                self.shape = tuple(shape)
                self.strides = strides_of(shape) if strides is None else tuple(strides)
                self.offset = offset

            def __getitem__(self, index):
                """One element."""
                return self.storage[place(index, self.shape, self.strides, self.offset)]

            def flat(self):
                """All elements, in the order of their indices."""
                places = [self.offset]
                for size, stride in zip(self.shape, self.strides):
                    places = [at + k * stride for at in places for k in range(size)]
                return [self.storage[at] for at in places]

            def tolist(self):
                """Nested lists."""
                values = self.flat()
                for size in reversed(self.shape[1:]):
                    values = [values[k : k + size] for k in range(0, len(values), size)]
                return values if self.shape else values[0]


        def array(nested):
            """An Array of nested lists."""
            shape = []
            values = [nested]
            while isinstance(values[0], list):
                shape.append(len(values[0]))
                values = [value for row in values for value in row]
            return Array(values, shape)
        ''',
        hint="Grow the list of places dim by dim. For `tolist` cut the flat list into pieces, the last dim first.",
        cases=lambda: [(5, ()), ([1, 2], (1,)), (MATRIX, (0, 2)), ([[1], [2]], (-1, 0)), (CUBE, (2, 0, 1))],
        probe=looked_at,
        asks="[shape, strides, offset, storage, flat, tolist, element {1}] of array({0}), and three of other strides",
        needs=("course.6", "course.7"),
    ),
    Exercise(
        title="Views",
        title_zh="视图",
        text="""Write `transpose(a, i, j)`, which swaps two dims, and `select(a, dim, number)`, which keeps one number
        of a dim and drops the dim. Both share the storage: nothing is copied. Numbers are not negative here.""",
        solution='''
        def transpose(a, i, j):
            """Two dims swapped."""
            dims = list(range(len(a.shape)))
            dims[i], dims[j] = j, i
            return Array(a.storage, [a.shape[d] for d in dims], [a.strides[d] for d in dims], a.offset)


        def select(a, dim, number):
            """One slice, without its dim."""
            shape, strides = list(a.shape), list(a.strides)
            del shape[dim], strides[dim]
            return Array(a.storage, shape, strides, a.offset + number * a.strides[dim])
        ''',
        hint="A transpose swaps sizes and strides. A selection moves the offset.",
        cases=lambda: [
            (MATRIX, 0, 1, 1),
            (MATRIX, 1, 0, 0),
            (MATRIX, 1, 0, 1),
            (CUBE, 0, 2, 1),
            (CUBE, 1, 2, 0),
            (CUBE, 2, 0, 1),
            (CUBE, 1, 0, 1),
        ],
        probe=viewed,
        asks="[views, both after the storage grew, a view of a view, shape] of {0}, dims {1} and {2}, number {3}",
        needs=("course.8",),
    ),
    Exercise(
        title="Shapes that fit",
        title_zh="相容的形状",
        text="""Return the shape that any number of shapes broadcast to. Missing dims at the front and sizes of 1
        adapt to the others; anything else that differs raises ValueError. No shapes give ().""",
        solution='''
        def broadcast_shapes(*shapes):
            """The common shape."""
            common = []
            for back in range(1, max(map(len, shapes), default=0) + 1):
                sizes = {shape[-back] for shape in shapes if len(shape) >= back} - {1}
                if len(sizes) > 1:
                    raise ValueError(f"sizes {sizes} do not fit")
                common.insert(0, sizes.pop() if sizes else 1)
            return tuple(common)
        ''',
        hint="Go from the last dim to the front; of the sizes of a dim, other than 1, there may be one.",
        cases=lambda: [
            (),
            ((),),
            ((3,),),
            ((1,), (3,)),
            ((2,), (3,)),
            ((2, 1), (3,)),
            ((2, 3), (2,)),
            ((4, 1, 1), (2, 1), (5,)),
            ((1, 1), ()),
            ((0,), (1,)),
            ((2, 1), (2, 1)),
            ((1, 2), (3, 1), (3, 2)),
        ],
        probe=lambda answer, *case: refused(answer.broadcast_shapes, *case),
    ),
    Exercise(
        title="A stride of zero",
        title_zh="步长为零",
        text="""Write `expand(a, shape)`: a view of this shape without a copy. Dims of size 1, and dims that are new
        at the front, repeat: their stride is 0. Other dims keep size and stride; raise ValueError where they
        differ.""",
        solution='''
        def expand(a, shape):
            """A larger view that repeats."""
            new = len(shape) - len(a.shape)
            strides = [0] * new
            for size, old, stride in zip(shape[new:], a.shape, a.strides):
                if old != size and old != 1:
                    raise ValueError(f"a size of {old} cannot become {size}")
                strides.append(stride if old == size else 0)
            return Array(a.storage, shape, strides, a.offset)
        ''',
        hint="Strides of 0 for what is new, then go through the old dims beside the last ones of the shape.",
        cases=lambda: [
            (5, ()),
            (5, (2,)),
            ([1, 2], (2,)),
            ([1, 2], (3, 2)),
            ([[1], [2]], (2, 3)),
            ([[1], [2]], (2, 2, 2)),
            ([1, 2], (3,)),
            ([[1, 2]], (2, 2)),
            (MATRIX, (2, 2)),
            (7, (2, 2)),
        ],
        probe=lambda answer, *case: refused(expanded, answer, *case),
        asks="[tolist, shape, strides, whether the storage is shared] of {0} as {1}",
        needs=("course.9", "course.10"),
    ),
    Exercise(
        title="One loop for all pointwise ops",
        title_zh="所有逐点运算一个循环",
        text="""Write `pointwise(f, *arrays)`: broadcast the Arrays, and return a fresh Array of f(one element of
        each).""",
        solution='''
        def pointwise(f, *arrays):
            """f of the elements that belong together."""
            shape = broadcast_shapes(*(a.shape for a in arrays))
            rows = [expand(a, shape).flat() for a in arrays]
            return Array([f(*values) for values in zip(*rows)], shape)
        ''',
        hint="Expand all to the common shape; then their `flat()` lists belong together.",
        cases=lambda: [([1, 2], [3, 4]), ([1, 2], 3), (MATRIX, [10, 20, 30]), ([[1], [2]], [[5, 6]]), (4, 5)],
        probe=lambda answer, a, b: mapped(answer, a, b),
        asks="[x - 2y, its shape, 1 - x] of {0} and {1}",
        needs=("course.11",),
    ),
    Exercise(
        title="One loop for all reductions",
        title_zh="所有归约一个循环",
        text="""Write `reduce(f, start, a, dim)`: combine the elements along a dim, from `start` on: f(f(start,
        first), second) and so on. The dim goes away. Return a fresh Array.""",
        solution='''
        def reduce(f, start, a, dim):
            """The elements along a dim, combined."""
            shape = a.shape[:dim] + a.shape[dim + 1 :]
            result = Array([start for _ in select(a, dim, 0).flat()], shape)
            for number in range(a.shape[dim]):
                result = pointwise(f, result, select(a, dim, number))
            return result
        ''',
        hint="Begin with an Array full of `start`, and combine it with one slice after the other.",
        cases=lambda: [([1, 2], 0), (MATRIX, 0), (MATRIX, 1), (CUBE, 1), (CUBE, 2)],
        probe=lambda answer, nested, dim: [
            [result.tolist(), result.shape]
            for result in (
                answer.reduce(lambda x, y: 2 * x - y, 1, answer.array(nested), dim),
                answer.reduce(max, 3, answer.array(nested), dim),
            )
        ],
        asks="[tolist, shape] with f = 2x - y, start 1, then max, start 3, of {0} along {1}",
        needs=("course.12",),
    ),
    Exercise(
        title="Matrix product",
        title_zh="矩阵乘法",
        text="""Write `matmul(a, b)` for Arrays of two dims, (n, k) and (k, m), with whatever strides. Raise
        ValueError where the inner sizes differ.""",
        solution='''
        def matmul(a, b):
            """The product of two matrices."""
            if a.shape[1] != b.shape[0]:
                raise ValueError(f"{a.shape} does not fit {b.shape}")
            rows = [select(a, 0, i).flat() for i in range(a.shape[0])]
            columns = [select(b, 1, j).flat() for j in range(b.shape[1])]
            values = [sum(x * y for x, y in zip(row, column)) for row in rows for column in columns]
            return Array(values, (len(rows), len(columns)))
        ''',
        hint="Rows of a and columns of b are selections; an element is the sum of products of two of them.",
        cases=lambda: [
            ([[2]], [[3]]),
            ([[1, 2]], [[3], [4]]),
            ([[3], [4]], [[1, 2]]),
            (MATRIX, [[1, 0], [0, 1], [2, 2]]),
            (MATRIX, [[1, 2]]),
            ([[1, 2]], [[1, 2]]),
        ],
        probe=lambda answer, a, b: refused(multiplied, answer, a, b),
        asks="[the product, its shape, b^T a^T] of {0} and {1}",
        needs=("course.13",),
    ),
)


def mapped(answer: ModuleType, a: Any, b: Any) -> Any:
    """A pointwise function of two arrays, its shape, and one of a single array."""
    x, y = answer.array(a), answer.array(b)
    result = answer.pointwise(lambda p, q: p - 2 * q, x, y)
    return result.tolist(), result.shape, answer.pointwise(lambda p: 1 - p, x).tolist()


def multiplied(answer: ModuleType, a: Any, b: Any) -> Any:
    x, y = answer.array(a), answer.array(b)
    product = answer.matmul(x, y)
    return product.tolist(), product.shape, answer.matmul(answer.transpose(y, 0, 1), answer.transpose(x, 0, 1)).tolist()
