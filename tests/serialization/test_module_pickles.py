"""Whole modules through files, for every record of PyTorch's own module database: the same text, state and results."""

import io
import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
common = pytest.importorskip("torch.testing._internal.common_modules")


def samples(record):
    """(constructor, forward) inputs that both libraries take."""
    def is_plain(value):
        return not isinstance(value, (torch.Tensor, torch.nn.Module, torch.dtype)) and not callable(value)

    for sample in record.module_inputs_func(
        record, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )[:1]:
        result = sample.constructor_input
        if all(map(is_plain, (*result.args, *result.kwargs.values()))) and sample.forward_input is not None:
            given = sample.forward_input
            if all(
                isinstance(v, (torch.Tensor, int, float, bool, type(None)))
                for v in (*given.args, *given.kwargs.values())
            ):
                yield result, given


def tensors_of(value):
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in tensors_of(item)]
    return [value.detach().numpy()] if hasattr(value, "detach") else []


def results(m, module, given):
    def moved(value):
        return m.tensor(value.detach().numpy()) if isinstance(value, torch.Tensor) else value

    m.manual_seed(0)
    return tensors_of(module(*map(moved, given.args), **{name: moved(value) for name, value in given.kwargs.items()}))


@pytest.mark.slow
@pytest.mark.parametrize("writer, reader", [(torch, rushlight), (rushlight, torch)], ids=["from_torch", "to_torch"])
def test_modules_come_back_and_compute_the_same(writer, reader):
    count = 0
    for record in common.module_db:
        name = record.module_cls.__name__
        if not record.module_cls.__module__.startswith("torch.nn.modules") or name.startswith("Lazy"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for made, given in samples(record):
                written = getattr(writer.nn, name)(*made.args, **made.kwargs).eval()
                file = io.BytesIO()
                writer.save(written, file)
                file.seek(0)
                read = reader.load(file, weights_only=False)
                assert repr(read) == repr(written)
                assert not set(getattr(reader.nn, name)(*made.args, **made.kwargs).__dict__) - set(read.__dict__), name
                for ours, theirs in zip(results(writer, written, given), results(reader, read, given), strict=True):
                    np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4, err_msg=name)
                count += 1
    assert count > 90
