"""The handlers that TorchServe's users build on: base_handler.py and the kinds of models beside it."""
