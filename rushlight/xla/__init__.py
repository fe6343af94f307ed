"""The `xla` device: a lazy device whose graphs XLA compiles and runs, through jaxlib."""
