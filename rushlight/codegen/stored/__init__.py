"""What later processes find: kernels, functions of tiles and compiled graphs on disk, and packed to travel."""
