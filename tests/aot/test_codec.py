"""Values as data (base/codec.py) and what upper rooms add to them: all of it comes back, and nothing else does."""

from __future__ import annotations

import functools
import json
import math
import operator
from typing import Any

import pytest

import rushlight as rl
from rushlight.base.codec import CONSTANTS, Codec
from rushlight.base.disk_cache import NotKept
from rushlight.inductor.described import HELD
from rushlight.op.stored import NAMED


def there_and_back(codec: Codec, x: Any) -> Any:
    return codec.restored(json.loads(json.dumps(codec.described(x))))


@pytest.mark.parametrize("x", [
    True, 2.5, None, "list", ["list", ("tuple", [])], {1: {"a": (2,)}, (3, 4): {}}, {1, 2}, frozenset((1,)),
    range(1, 9, 2), slice(None, 3), slice((1, 2), None, 2), 1 - 2j, b"\0\xff", ..., rl.bfloat16, rl.device("cpu"),
    rl.strided, rl.channels_last, (rl.float32, [rl.device("meta")]),
], ids=repr)
def test_constants_come_back(x: Any) -> None:
    for codec in (CONSTANTS, NAMED, HELD):
        found = there_and_back(codec, x)
        assert type(found) is type(x) and found == x


@pytest.mark.parametrize("x", [rl.add, rl.sin.overload_list[0], math.sqrt, operator.mul, max, int])
def test_what_has_a_name_comes_back(x: Any) -> None:
    assert there_and_back(NAMED, x) is x and there_and_back(HELD, (x,)) == (x,)


def test_functions_that_hold_something_come_back() -> None:
    f = functools.partial(math.pow, 2.0)
    assert there_and_back(HELD, f)(3.0) == 8.0
    with pytest.raises(NotKept):
        NAMED.described(f)


@pytest.mark.parametrize("x", [rl.ones(2), there_and_back, lambda: None, object(), exec, open, (1, [object()])])
def test_what_no_other_process_knows_is_refused(x: Any) -> None:
    for codec in (CONSTANTS, NAMED, HELD):
        with pytest.raises(NotKept):
            codec.described(x)


@pytest.mark.parametrize("data", [
    [], [1], [["tuple"]], ["no such kind"], ["dtype", "Tensor"], ["dtype", "float32", "float32"], ["shape", "Size"],
    ["bytes", "no hex"], ["dict", 1], ["complex", "a", "b"], ["op", "no such op"], ["overload", "sin", 99],
    ["named", "os", "system"], ["named", "builtins", "exec"], ["named", "rushlight.base.late", "os.system"],
    ["named", "rushlight.base.late", "_ROOT"], ["tuple", ["named", "subprocess", "run"]],
    ["function", "os", "popen", 1, ["list"], None, None], ["module", "os"], ["module", "rushlight.nowhere"],
    ["record", "Tensor", ["dict"]],
])
def test_foreign_data_is_refused(data: Any) -> None:
    for codec in (CONSTANTS, NAMED, HELD):
        with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
            codec.restored(data)
