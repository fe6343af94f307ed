"""Graphs as AOTAutograd hands them on: the backend that runs one op by op, and graphs described for later processes."""
