"""Legality of nests.
"""
def verify(nest): pass
