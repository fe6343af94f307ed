"""The linalg dialect: what definitions say of one element, as loops on tensors."""
