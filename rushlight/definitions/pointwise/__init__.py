"""The pointwise definitions, by family."""
