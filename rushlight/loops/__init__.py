"""The loop language: scalar expressions (`expr`), their functions and derivatives, and loop nests."""
