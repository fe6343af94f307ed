"""What memory is held for, over time: parameters, gradients, activations, optimizer state, inputs, temporaries.

Enters: the events of a recording with shapes, memory and stacks. Leaves: `[times, sizes by category]`, every single
change, or a page that draws both, from disk and without a network.
"""

from __future__ import annotations


class MemoryProfile:
    def __init__(self, source):
        self.source = source


class MemoryProfileTimeline:
    def __init__(self, profile):
        self.profile = profile
