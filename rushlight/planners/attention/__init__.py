"""Planning attention: blocks of queries against blocks of keys, in vectors or on tile registers."""
