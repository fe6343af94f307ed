"""Windows over images: the private ops that pools and interpolations are made of."""
