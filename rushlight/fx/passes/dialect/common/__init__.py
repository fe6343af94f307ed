"""Passes that suit graphs of any ops."""
