"""Captured frames kept on disk, and what tells in a later process that they still hold."""
