"""Random numbers: fills, samplers and their gradients, dropout, and all of them as functions of a state."""
