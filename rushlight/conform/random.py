"""Random numbers: seeds that matter, states that come back, distributions that are what they are called, dropout.

Every case starts from a seed, so that what it sees is the same in every run; bounds are five and more standard errors
wide. Nothing is compared with the host's numbers: a device may have a generator of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import rushlight as rl

from .case import Case, Chip, Skip, case
from .family import family

COUNT = 20_000

DRAWS = {
    "rand": lambda device, n: rl.rand(n, device=device),
    "randn": lambda device, n: rl.randn(n, device=device),
    "randint": lambda device, n: rl.randint(0, 1_000_000, (n,), device=device),
    "randperm": lambda device, n: rl.randperm(n, device=device),
    "bernoulli": lambda device, n: rl.bernoulli(rl.full((n,), 0.5, device=device)),
    "uniform_": lambda device, n: rl.empty(n, device=device).uniform_(-3, 5),
    "normal_": lambda device, n: rl.empty(n, device=device).normal_(2, 3),
    "exponential_": lambda device, n: rl.empty(n, device=device).exponential_(),
    "multinomial": lambda device, n: rl.multinomial(rl.ones(50, device=device), n, replacement=True),
    "dropout": lambda device, n: rl.nn.functional.dropout(rl.ones(n, device=device), 0.5),
}


def drawn(chip: Chip, name: str, seed: int, n: int = 1001) -> rl.Tensor:
    """Numbers of a fresh seed, as the host sees them."""
    rl.manual_seed(seed)
    return DRAWS[name](chip.device, n).cpu()


def same_seed_same_numbers(chip: Chip, name: str) -> None:
    first, second = drawn(chip, name, 11), drawn(chip, name, 11)
    assert rl.equal(first, second), f"{name}: seed 11 gave other numbers the second time ({differ(first, second)})"


def other_seed_other_numbers(chip: Chip, name: str) -> None:
    first, second = drawn(chip, name, 11), drawn(chip, name, 12)
    assert not rl.equal(first, second), f"{name}: seeds 11 and 12 gave the same 1001 numbers"


def next_draw_other_numbers(chip: Chip, name: str) -> None:
    first = drawn(chip, name, 11)
    second = DRAWS[name](chip.device, 1001).cpu()
    assert not rl.equal(first, second), f"{name}: two draws one after the other gave the same 1001 numbers"


def differ(first: rl.Tensor, second: rl.Tensor) -> str:
    """How many elements of two tensors are not the same."""
    return f"{int((first != second).sum())} of {first.numel()} differ"


@case(needs=("handler",))
def seeds_have_64_bits(chip: Chip) -> None:
    if chip.handler.own("random_uniform") is None:
        raise Skip("the host draws for the device, from 32 bits of the seed")
    seeds = (5, 5 + 2**32, 5 + 2**40, 5 + 2**62)
    for name in ("rand", "randn", "dropout"):
        seen = [drawn(chip, name, seed) for seed in seeds]
        for seed, numbers in zip(seeds[1:], seen[1:], strict=True):
            assert not rl.equal(seen[0], numbers), f"{name}: seeds {seeds[0]} and {seed} gave the same numbers"


@case()
def a_generator_has_a_seed_of_its_own(chip: Chip) -> None:
    def numbers(seed: int) -> rl.Tensor:
        return rl.randn(500, device=chip.device, generator=rl.Generator(device=chip.device).manual_seed(seed)).cpu()

    first = numbers(3)
    rl.randn(7, device=chip.device)
    assert rl.equal(first, numbers(3)), "a generator of seed 3 gave other numbers after the default one was used"
    assert not rl.equal(first, numbers(4)), "generators of seeds 3 and 4 gave the same numbers"


@case()
def the_state_of_a_generator_comes_back(chip: Chip) -> None:
    generator = rl.Generator(device=chip.device).manual_seed(9)
    for name in ("rand", "randn"):
        draw = getattr(rl, name)
        draw(123, device=chip.device, generator=generator)
        state = generator.get_state()
        first = [draw(n, device=chip.device, generator=generator).cpu() for n in (50, 333)]
        generator.set_state(state)
        second = [draw(n, device=chip.device, generator=generator).cpu() for n in (50, 333)]
        for one, other in zip(first, second, strict=True):
            assert rl.equal(one, other), f"{name}: a state that was set again gave other numbers ({differ(one, other)})"


@case()
def a_state_set_on_another_generator_continues(chip: Chip) -> None:
    first, second = rl.Generator(device=chip.device).manual_seed(1), rl.Generator(device=chip.device).manual_seed(2)
    rl.rand(10, device=chip.device, generator=first)
    second.set_state(first.get_state())
    one, other = (rl.rand(100, device=chip.device, generator=g).cpu() for g in (first, second))
    assert rl.equal(one, other), f"two generators of one state gave other numbers ({differ(one, other)})"


@case()
def fork_rng_leaves_the_numbers_that_follow(chip: Chip) -> None:
    units = [] if chip.name == "cpu" else list(range(chip.units))
    kind = "cuda" if chip.name == "cpu" else chip.name
    for name in ("rand", "randn", "randperm", "dropout"):
        rl.manual_seed(21)
        with rl.random.fork_rng(units, device_type=kind):
            DRAWS[name](chip.device, 77)
        first = DRAWS[name](chip.device, 1001).cpu()
        second = drawn(chip, name, 21)
        assert rl.equal(first, second), f"{name}: drawing under fork_rng changed what follows ({differ(first, second)})"


@case(needs=("two units",))
def every_unit_follows_the_seed(chip: Chip) -> None:
    for unit in range(chip.units):
        seen = []
        for seed in (8, 8, 9):
            rl.manual_seed(seed)
            seen.append(rl.randn(200, device=f"{chip.name}:{unit}").cpu())
        assert rl.equal(seen[0], seen[1]), f"unit {unit}: seed 8 gave other numbers the second time"
        assert not rl.equal(seen[0], seen[2]), f"unit {unit}: seeds 8 and 9 gave the same numbers"


# Distributions
# ---------------------------------------------------------------------------------------------------------------------


def near(what: str, got: float, want: float, deviation: float, n: int = COUNT) -> None:
    """Refuse a mean of `n` numbers that is more than six standard errors off."""
    allowed = 6 * deviation / n**0.5
    assert abs(got - want) <= allowed, f"{what} is {got:.5f} over {n} numbers, expected {want} within {allowed:.5f}"


def follows(what: str, numbers: rl.Tensor, distribution: rl.Tensor) -> None:
    """Kolmogorov and Smirnov's test: `distribution` holds, for the sorted numbers, what share lies below each."""
    n = numbers.numel()
    steps = rl.arange(1, n + 1, dtype=rl.float64) / n
    largest = float(rl.maximum((steps - distribution).abs(), (steps - 1 / n - distribution).abs()).max())
    allowed = 2.4 / n**0.5      # passed by a true one but for one in 100,000 seeds
    assert largest <= allowed, f"{what}: the distribution is off by {largest:.4f}, at most {allowed:.4f} is chance"


def as_sorted(x: rl.Tensor) -> rl.Tensor:
    """The numbers on the host, in order, at full precision."""
    return x.cpu().to(rl.float64).sort().values


@case()
def rand_is_uniform(chip: Chip) -> None:
    x = as_sorted(rl.rand(COUNT, device=chip.device))
    assert 0 <= float(x[0]) and float(x[-1]) < 1, f"rand must be in [0, 1), got {float(x[0])} to {float(x[-1])}"
    near("the mean of rand", float(x.mean()), 0.5, 12**-0.5)
    follows("rand", x, x)


@case()
def rand_of_many_stays_below_one(chip: Chip) -> None:
    for dtype in (d for d in (rl.float32, rl.float16, rl.bfloat16, rl.float64) if d in chip.dtypes):
        x = rl.rand(50_000, device=chip.device, dtype=dtype).cpu()
        least, most = float(x.min()), float(x.max())
        assert 0 <= least < 0.02 and 0.98 < most < 1, f"rand of {dtype} must fill [0, 1), got {least} to {most}"


@case()
def randn_is_normal(chip: Chip) -> None:
    x = as_sorted(rl.randn(COUNT, device=chip.device))
    near("the mean of randn", float(x.mean()), 0.0, 1.0)
    near("the mean square of randn", float((x * x).mean()), 1.0, 2**0.5)
    near("the mean fourth power of randn", float((x**4).mean()), 3.0, 96**0.5)
    follows("randn", x, 0.5 * (1 + rl.erf(x / 2**0.5)))


@case()
def normal_takes_mean_and_deviation(chip: Chip) -> None:
    x = rl.empty(COUNT, device=chip.device).normal_(-2.0, 0.25).cpu().to(rl.float64)
    near("the mean of normal_(-2, 0.25)", float(x.mean()), -2.0, 0.25)
    near("the mean square deviation of normal_(-2, 0.25)", float(((x + 2) ** 2).mean()), 0.0625, 0.0625 * 2**0.5)


@case()
def uniform_takes_its_bounds(chip: Chip) -> None:
    x = as_sorted(rl.empty(COUNT, device=chip.device).uniform_(-3, 5))
    assert -3 <= float(x[0]) and float(x[-1]) <= 5, f"uniform_(-3, 5) gave {float(x[0])} to {float(x[-1])}"
    follows("uniform_(-3, 5)", x, (x + 3) / 8)


@case()
def exponential_falls_as_it_should(chip: Chip) -> None:
    x = as_sorted(rl.empty(COUNT, device=chip.device).exponential_(0.5))
    assert float(x[0]) >= 0, f"exponential_ gave {float(x[0])}"
    follows("exponential_(0.5)", x, 1 - (-0.5 * x).exp())


@case()
def bernoulli_has_its_share(chip: Chip) -> None:
    for p in (0.1, 0.5, 0.9):
        x = rl.bernoulli(rl.full((COUNT,), p, device=chip.device)).cpu()
        assert bool(((x == 0) | (x == 1)).all()), "bernoulli gave other numbers than 0 and 1"
        near(f"the share of ones of bernoulli({p})", float(x.mean()), p, (p * (1 - p)) ** 0.5)


@case()
def randint_reaches_every_number(chip: Chip) -> None:
    x = rl.randint(-3, 7, (COUNT,), device=chip.device).cpu()
    counts = rl.stack([(x == k).sum() for k in range(-3, 7)])
    assert int(counts.sum()) == COUNT, f"randint(-3, 7) gave numbers from {int(x.min())} to {int(x.max())}"
    for k, count in zip(range(-3, 7), counts.tolist(), strict=True):
        near(f"the share of {k} in randint(-3, 7)", count / COUNT, 0.1, 0.3)


@case(needs=("int64",))
def randint_reaches_beyond_32_bits(chip: Chip) -> None:
    x = rl.randint(0, 2**60, (4000,), device=chip.device).cpu()
    assert bool((x >= 0).all() & (x < 2**60).all()), f"randint(0, 2**60) gave {int(x.min())} to {int(x.max())}"
    near("the mean of randint(0, 2**60) / 2**60", float(x.to(rl.float64).mean()) / 2**60, 0.5, 12**-0.5, 4000)
    assert int((x & 0xFFFF).unique().numel()) > 3000, "the low 16 bits of randint(0, 2**60) hardly vary"


@case()
def randperm_is_a_permutation(chip: Chip) -> None:
    for n in (0, 1, 2, 17, 1000, 70_001):
        x = rl.randperm(n, device=chip.device).cpu()
        assert rl.equal(x.sort().values, rl.arange(n)), f"randperm({n}) is no permutation"
    first = float((x == rl.arange(n)).sum())
    assert first < 12, f"randperm({n}) left {first:.0f} elements in their places"


@case()
def multinomial_follows_weights(chip: Chip) -> None:
    weights = rl.tensor([1.0, 0.0, 3.0, 6.0])
    x = rl.multinomial(weights.to(chip.device), COUNT, replacement=True).cpu()
    for k, weight in enumerate((weights / weights.sum()).tolist()):
        share = float((x == k).double().mean())
        near(f"the share of {k} of multinomial", share, weight, (weight * (1 - weight)) ** 0.5)


@case()
def numbers_do_not_repeat_inside_a_tensor(chip: Chip) -> None:
    for n in (4096, 70_000):
        x = rl.rand(2 * n, device=chip.device).cpu()
        shared = int((x[:n] == x[n:]).sum())
        assert shared < 20, f"rand({2 * n}): {shared} numbers of the second half equal those of the first"
        near(f"the product of neighbours in rand({2 * n})", float(((x[:-1] - 0.5) * (x[1:] - 0.5)).mean()), 0.0, 1 / 12,
             2 * n)


@case()
def every_element_is_drawn(chip: Chip) -> None:
    for shape in ((1,), (3,), (127,), (33, 5), (65_537,)):
        x = rl.full(shape, -7.0, device=chip.device).uniform_()
        assert bool((x.cpu() != -7).all()), f"uniform_ left elements of a tensor of sizes {shape} as they were"
        wide = rl.full((shape[0], 2), -7.0, device=chip.device)
        wide[:, 0].normal_()
        assert bool((wide[:, 1].cpu() == -7).all()), "normal_ on every second element wrote to the others"
        assert bool((wide[:, 0].cpu() != -7).all()), "normal_ on every second element left some as they were"


# Dropout
# ---------------------------------------------------------------------------------------------------------------------


@case()
def dropout_drops_its_share_and_scales(chip: Chip) -> None:
    for p in (0.1, 0.5, 0.8):
        y = rl.nn.functional.dropout(rl.full((COUNT,), 3.0, device=chip.device), p).cpu()
        kept = y != 0
        near(f"the share that dropout({p}) keeps", float(kept.double().mean()), 1 - p, (p * (1 - p)) ** 0.5)
        wrong = float((y[kept] - 3 / (1 - p)).abs().max())
        assert wrong < 1e-4, f"dropout({p}) of 3 left elements that are {wrong} off {3 / (1 - p)}"


@case()
def dropout_has_one_mask_forward_and_backward(chip: Chip) -> None:
    x = rl.ones(999, device=chip.device, requires_grad=True)
    y = rl.nn.functional.dropout(x, 0.4)
    y.sum().backward()
    wrong = int((y.detach().cpu() != x.grad.cpu()).sum())
    assert not wrong, f"dropout: {wrong} of 999 elements have another factor in the backward pass"


@case()
def dropout_of_a_model_in_eval_is_nothing(chip: Chip) -> None:
    x = rl.arange(100.0)
    layer = rl.nn.Dropout(0.5).eval()
    assert rl.equal(layer(x.to(chip.device)).cpu(), x), "Dropout changed its input in eval mode"
    for p, want in ((0.0, x), (1.0, rl.zeros(100))):
        got = rl.nn.functional.dropout(x.to(chip.device), p).cpu()
        assert rl.equal(got, want), f"dropout({p}) is not exact"


@case()
def dropout2d_drops_whole_channels(chip: Chip) -> None:
    y = rl.nn.functional.dropout2d(rl.ones(40, 50, 3, 3, device=chip.device), 0.5).cpu().reshape(2000, 9)
    assert bool((y == y[:, :1]).all()), "dropout2d dropped parts of channels"
    near("the share that dropout2d keeps", float((y[:, 0] != 0).double().mean()), 0.5, 0.5, 2000)


@case()
def models_start_from_the_seed(chip: Chip) -> None:
    def weights() -> list[rl.Tensor]:
        rl.manual_seed(4)
        with chip.device:
            layer = rl.nn.Linear(30, 20)
        return [p.detach().cpu() for p in layer.parameters()]

    for one, other in zip(weights(), weights(), strict=True):
        assert rl.equal(one, other), "a layer made after the same seed has other weights"
        bound = 30**-0.5
        most, spread = float(one.abs().max()), float(one.std())
        assert most <= 1.0001 * bound and spread > bound / 3, f"the weights of a layer reach {most}, spread {spread}"


@case()
def complex_numbers_share_their_variance(chip: Chip) -> None:
    if rl.complex64 not in chip.dtypes:
        raise Skip("the device has no complex64")
    x = rl.view_as_real(rl.randn(COUNT, device=chip.device, dtype=rl.complex64).cpu()).to(rl.float64)
    for part, name in ((x[:, 0], "real"), (x[:, 1], "imaginary")):
        near(f"the mean square of the {name} part of randn", float((part * part).mean()), 0.5, 0.5**0.5)


def cases(chip: Chip) -> Iterator[Case]:
    """Every kind of draw, by seeds."""
    variants = {name: (name,) for name in DRAWS}
    for function in (same_seed_same_numbers, other_seed_other_numbers, next_draw_other_numbers):
        yield from family(function, variants)
