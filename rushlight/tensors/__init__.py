"""What tensors can do that is no op: methods, indexing, printing, exchange with other libraries."""
