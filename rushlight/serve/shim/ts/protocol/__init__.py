"""Where handlers look for what sends parts of an answer."""
