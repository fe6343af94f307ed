"""TorchScript archives: `reader` and `writer`, over the zip container and the restricted pickles of `serialization`.

`imports` turns the code of an archive into classes and functions when they are first named, `names` says what the words
of that code mean, `pickles` reads and writes the objects, `upgraders` keeps old programs at their meaning, `debug`
holds where code came from, `bytecode` the files of the lite interpreter.
"""
