"""Messages of everyday mistakes name the op that was called and what to do, not what it is made of."""

import pytest

import rushlight as rl

F = rl.nn.functional

MISTAKES = {
    "an index beyond the table": (
        lambda: rl.nn.Embedding(5, 2)(rl.tensor([[1, 7]])), IndexError,
        r"^embedding: index out of range in self: index 7, .* 5 rows$"),
    "a negative index": (lambda: F.embedding(rl.tensor([-1]), rl.zeros(3, 2)), IndexError, r"^embedding: .* index -1"),
    "classes as floats": (
        lambda: F.cross_entropy(rl.zeros(3, 4), rl.tensor([0.0, 1.0, 2.0])), RuntimeError,
        r"classes .*got float32 of size \[3\].*target\.long\(\)"),
    "a keyword of another name": (
        lambda: F.softmax(rl.zeros(2), dims=0), TypeError,
        r"argument 'dims'\.\nSignatures:\n    softmax\(Tensor input, int dim, .*\n    softmax\("),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert "_functional" not in str(caught.value) and "index_select" not in str(caught.value)
