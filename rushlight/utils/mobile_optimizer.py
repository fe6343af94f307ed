"""TorchScript's optimizer for phones: not here, and says so when used."""

from ..absent import absent_names

globals().update(absent_names("torch.utils.mobile_optimizer", "models for phones are not made from TorchScript here",
                              "LintCode MobileOptimizerType generate_mobile_module_lints optimize_for_mobile"))
