"""How programs write down what happened: one line a question, `name: answer`."""

import warnings


def plain(value):
    """A value as text that two frameworks share: numbers rounded, tensors as lists, classes by name."""
    import torch

    if isinstance(value, torch.Tensor):
        held = getattr(value, "raw", None)
        numbers = held.tolist() if held is not None else torch.Tensor.tolist(value)
        return f"{type(value).__name__} {plain(numbers)} {str(value.dtype).removeprefix('torch.')} {value.device}"
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (torch.device, torch.dtype)):
        return str(value)
    return type(value).__name__


def ask(name, question):
    """Write down an answer, or the class of what was raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(f"{name}: {plain(question())}")
    except Exception as error:
        print(f"{name}: raises {type(error).__name__}")
