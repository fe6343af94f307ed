"""Convolutions and their gradients: by window, stride and channels one of several forms, each with its own walk."""
