"""Example inputs inside TorchScript files: not here, and says so when used."""

from ..absent import absent_names

globals().update(absent_names("torch.utils.bundled_inputs", "TorchScript files with example inputs are not made here",
                              "InflatableArg augment_many_model_functions_with_bundled_inputs augment_model_with_bundled_inputs bundle_inputs bundle_large_tensor bundle_randn"))
