"""Arithmetic of the machine, as pipelines without handshake: see each file."""
