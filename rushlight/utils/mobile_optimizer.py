"""TorchScript's optimizer for phones: not here, and says so when used."""

from ..base.refusals import names_of

globals().update(names_of("torch.utils.mobile_optimizer"))
