"""Results that scripts have written into tensors of theirs: `out=`."""

import rushlight as torch


def into(x, y, r):
    r = torch.addcmul(x, y, y, value=2, out=r)
    z = torch.empty([3, 3])
    torch.mm(x, y, out=z)
    w = torch.clamp(z, -1, 1, out=torch.zeros([3, 3]))
    torch.exp(w, out=w)
    return r, z, w


def test_results_go_where_the_program_says() -> None:
    x, y, r = torch.randn(3, 3), torch.randn(3, 3), torch.zeros(3, 3)
    found, wanted = torch.jit.script(into)(x, y, r), into(x, y, torch.zeros(3, 3))
    assert found[0].data_ptr() == r.data_ptr()
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)
