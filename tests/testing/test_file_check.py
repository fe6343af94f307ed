"""FileCheck passes and fails where PyTorch's does."""

from __future__ import annotations

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
TEXT = "a = 1\nb = 2\nc = a + b\nd = b\n"
MARKED = "def f(x):\n    return x + y\n           ~~~~~ <--- HERE\n"

CHECKS = {
    "found": (lambda f: f.check("a").check("c").check("d"), TEXT),
    "missing": (lambda f: f.check("x"), TEXT),
    "in the wrong order": (lambda f: f.check("c").check("a ="), TEXT),
    "behind the match": (lambda f: f.check("aa").check("aa"), "aaa"),
    "next": (lambda f: f.check("a").check_next("b"), TEXT),
    "not next": (lambda f: f.check("a").check_next("c"), TEXT),
    "same": (lambda f: f.check("a").check_same("1"), TEXT),
    "not same": (lambda f: f.check("a").check_same("2"), TEXT),
    "not between": (lambda f: f.check("a").check_not("b").check("c"), TEXT),
    "absent": (lambda f: f.check_not("zz"), TEXT),
    "not before": (lambda f: f.check_not("d").check("c"), TEXT),
    "not after": (lambda f: f.check("c").check_not("d"), TEXT),
    "count": (lambda f: f.check_count("b", 2), TEXT),
    "count exactly": (lambda f: f.check_count("b", 3, exactly=True), TEXT),
    "count too many": (lambda f: f.check_count("b", 2, exactly=True), TEXT),
    "count exactly before": (lambda f: f.check_count("b", 1, exactly=True).check("c = a"), TEXT),
    "count none": (lambda f: f.check_count("b", 0, exactly=True), TEXT),
    "count too few": (lambda f: f.check_count("b", 9), TEXT),
    "dag": (lambda f: f.check_dag("c =").check_dag("b =").check("d"), TEXT),
    "dag missing": (lambda f: f.check_dag("c =").check_dag("zz").check("d"), TEXT),
    "dag split by not": (lambda f: f.check_dag("d =").check_not("b =").check_dag("c ="), TEXT),
    "regex": (lambda f: f.check_regex(r"c = \w \+"), TEXT),
    "regex missing": (lambda f: f.check_regex(r"c = \d"), TEXT),
    "highlighted": (lambda f: f.check_source_highlighted("x + y"), MARKED),
    "not highlighted": (lambda f: f.check_source_highlighted("return"), MARKED),
    "part of a highlight": (lambda f: f.check_source_highlighted("x +"), MARKED),
    "no checks": (lambda f: f, TEXT),
}
FILES = {
    "comments": "# CHECK: a\n# CHECK-NEXT: b\n# CHECK-SAME: 2\n", "comments fail": "# CHECK: a\n# CHECK-NOT: b\n",
    "count": "# CHECK-COUNT-2: b\n",
    "exactly": "# CHECK-COUNT-EXACTLY-2: b\n", "dag": "# CHECK-DAG: c =\n# CHECK-DAG: b =\n",
    "unknown": "# CHECK-FOO: b\n", "text only": "hello\n",
}


def passes(run):
    try:
        run()
    except RuntimeError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", CHECKS)
def test_verdicts(name):
    build, text = CHECKS[name]
    ours, theirs = (passes(lambda t=t: build(t.testing.FileCheck()).run(text)) for t in (rl, torch))
    assert (ours is None) == (theirs is None)
    if ours and "From CHECK" in theirs and "exactly" not in name and "too many" not in name and "none" not in name:
        assert ours.split("From ")[1] == theirs.split("From ")[1]


@pytest.mark.parametrize("name", FILES)
def test_checks_in_comments(name):
    ours, theirs = (passes(lambda t=t: t.testing.FileCheck().run(FILES[name], TEXT)) for t in (rl, torch))
    assert (ours is None) == (theirs is None)


def test_place_is_shown():
    with pytest.raises(RuntimeError, match='not find "b" but found it\na = 1\nb = 2\n~ <--- HERE\nc = a'):
        rl.testing.FileCheck().check("a").check_not("b").run(TEXT)
    with pytest.raises(TypeError):
        rl.testing.FileCheck().run()
