"""Averages of whole models over processes, now and then: what local SGD does in place of averaging gradients."""
