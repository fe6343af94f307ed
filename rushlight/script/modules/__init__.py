"""Modules in scripts: what a Python module is as a class of the language, its running object, and how `self` compiles.

`concrete` reads a module's attributes, `building` makes classes and objects of them, `values` and `containers` say what
expressions on modules mean, `ignored` keeps calls of Python functions, `functional` holds the scripts of `F.*`.
"""
