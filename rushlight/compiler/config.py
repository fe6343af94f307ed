"""Settings of compilation that hold across its stages."""

job_id: str | None = None
dynamic_shapes = True
assume_static_by_default = True
cache_key_tag = ""
force_disable_caches = False
