"""Rules: what calling a function, a method or a class of the libraries means while a graph is written."""
