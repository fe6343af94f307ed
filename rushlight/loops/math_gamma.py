"""The gamma function family as primitives."""
