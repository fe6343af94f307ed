"""What users may set of the inductor; `rushlight._inductor.config` shows the same under PyTorch's names where there is
one."""

# inference: pack weights, and fold what depends on them alone, once instead of at each call; costs their memory again
prepare_weights = True
