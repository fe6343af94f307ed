"""GPU kernels: nests whose loops blocks and threads share, and PTX by hand for what no nest says."""
