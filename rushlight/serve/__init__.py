"""Serving: models of files behind HTTP and gRPC, in the languages of KServe, TorchServe and OpenAI's clients.

Enters: `.pt2` files, `.mar` archives and folders of language models. Leaves: a server, whose workers are processes of
their own. Refuses: requests, archives and names that are wrong, with a word about what was expected.
"""
