"""Scripts as text: graphs as they print, and the Python-like code that archives hold."""
