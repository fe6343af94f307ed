"""The numeric suite for graphs: subgraphs of two models matched, logged, and one run in the shadow of the other."""
