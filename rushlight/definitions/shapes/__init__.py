"""Other shapes: padding, folding, shuffling, basic indexing, and sizes as ops."""
