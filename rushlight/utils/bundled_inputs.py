"""Example inputs inside TorchScript files: not here, and says so when used."""

from ..base.refusals import names_of

globals().update(names_of("torch.utils.bundled_inputs"))
