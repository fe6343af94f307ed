"""Short-time transforms, windows and frequencies: arguments that the op records do not visit."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SIGNAL = torch.linspace(-2, 3, 96, dtype=torch.float64).sin().reshape(2, 48)


def same(ours, theirs, tol=1e-6):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    if theirs.is_complex():
        ours, theirs = rl.view_as_real(ours.resolve_conj()), torch.view_as_real(theirs.resolve_conj())
    torch.testing.assert_close(
        torch.from_numpy(ours.detach().float().numpy()), theirs.detach().float(), rtol=tol, atol=tol, equal_nan=True
    )


def both(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = rl.from_numpy(SIGNAL.numpy().copy()), SIGNAL.clone()
        return call(rl, ours), call(torch, theirs)


@pytest.mark.parametrize("options", [
    {}, {"center": False}, {"normalized": True}, {"onesided": False}, {"pad_mode": "constant"},
    {"pad_mode": "circular"}, {"pad_mode": "replicate"}, {"hop_length": 3}, {"return_complex": False},
    {"center": False, "win_length": 10, "align_to_window": True}, {"win_length": 11},
])
def test_stft_arguments(options):
    def call(m, x):
        wide = options.get("win_length", 16)
        return x.stft(16, **{"window": m.hann_window(wide, dtype=m.float64), "return_complex": True, **options})

    same(*both(call))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalized": True},
        {"length": 40},
        {"length": 60},
        {"onesided": False},
        {"onesided": False, "return_complex": True},
    ],
)
def test_istft_returns_to_the_signal(options):
    def call(m, x):
        window = m.hann_window(16, dtype=m.float64)
        kept = {k: v for k, v in options.items() if k in ("normalized", "onesided")}
        result = m.stft(x, 16, window=window, return_complex=True, **kept)
        return m.istft(result, 16, window=window, **options)

    ours, theirs = both(call)
    same(ours, theirs)
    if not options:
        same(ours, SIGNAL)


def test_istft_refuses_uncovered_points():
    spectrum = rl.ones(9, 4, dtype=rl.complex64)
    with pytest.raises(RuntimeError, match="overlap"):
        rl.istft(spectrum, 16, window=rl.zeros(16))
    with pytest.raises(RuntimeError, match="complex"):
        rl.istft(rl.ones(9, 4), 16, window=rl.ones(16))


def test_stft_wants_return_complex():
    with pytest.raises(RuntimeError, match="return_complex"):
        rl.stft(rl.ones(40), 16, window=rl.ones(16))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 12])
@pytest.mark.parametrize(
    "name", ["hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"]
)
def test_root_windows(name, length):
    for args in ((), (False,), (True,)):
        same(getattr(rl, name)(length, *args), getattr(torch, name)(length, *args), 2e-6)
    same(getattr(rl, name)(length, dtype=rl.bfloat16), getattr(torch, name)(length, dtype=torch.bfloat16), 1e-2)


def test_root_windows_take_their_numbers():
    same(rl.hamming_window(6, True, 0.3), torch.hamming_window(6, True, 0.3))
    same(rl.hamming_window(6, False, 0.3, 0.2), torch.hamming_window(6, False, 0.3, 0.2))
    same(rl.kaiser_window(6, True, 3.0), torch.kaiser_window(6, True, 3.0))
    with pytest.raises(RuntimeError, match="window_length"):
        rl.hann_window(-1)
    with pytest.raises(RuntimeError, match="floating"):
        rl.hann_window(3, dtype=rl.int32)


@pytest.mark.parametrize("n", [0, 1, 4, 5])
def test_frequencies(n):
    same(rl.fft.fftfreq(n, 0.5), torch.fft.fftfreq(n, 0.5))
    same(rl.fft.rfftfreq(n, d=2.0, dtype=rl.float64), torch.fft.rfftfreq(n, d=2.0, dtype=torch.float64))


def test_half_types_are_refused():
    for dtype in (rl.float16, rl.bfloat16):
        with pytest.raises(RuntimeError, match="Unsupported dtype"):
            rl.fft.fft(rl.ones(4, dtype=dtype))


def test_meta_gives_shapes():
    x = rl.empty(3, 8, device="meta")
    assert rl.fft.rfft(x).shape == (3, 5)
    assert rl.fft.irfftn(rl.fft.rfftn(x)).shape == (3, 8)
    assert rl.stft(x, 4, window=rl.ones(4, device="meta"), return_complex=True).dtype is rl.complex64


def test_out_is_written_and_checked():
    out = rl.empty(0, dtype=rl.complex64)
    assert rl.fft.fft(rl.ones(4), out=out) is out
    assert out[0].item() == 4
    with pytest.raises(RuntimeError):
        rl.fft.fft(rl.ones(4), out=rl.empty(4))


@pytest.mark.parametrize("n", [31, 64, 128, 512, 2048])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths_with_kernels_of_their_own(n, dtype):
    """Powers of two are transformed by generated kernels; their neighbours by the library."""
    x = torch.linspace(-3, 5, 3 * n, dtype=getattr(torch, dtype)).sin().reshape(3, n)
    ours, tol = rl.from_numpy(x.numpy()), 2e-5 if dtype == "float32" else 1e-12
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        for norm in ("backward", "ortho", "forward"):
            same(getattr(rl.fft, name)(ours, norm=norm), getattr(torch.fft, name)(x, norm=norm), tol * n)
    same(rl.fft.irfft(rl.fft.rfft(ours), n), x, tol)
    same(rl.fft.fft(ours.t(), dim=0), torch.fft.fft(x.t(), dim=0), tol * n)


def test_a_batch_is_transformed_at_once():
    x = rl.randn(4, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(rl.func.vmap(rl.fft.rfft)(x), torch.fft.rfft(torch.from_numpy(x.numpy())), 1e-5)
