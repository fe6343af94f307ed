"""`torch.nn.parallel.parallel_apply`: modules called on several devices at once, of which there are none."""

from ...absent import absent_names

globals().update(absent_names("torch.nn.parallel.parallel_apply", "there are no devices to spread over", "parallel_apply get_a_var"))
