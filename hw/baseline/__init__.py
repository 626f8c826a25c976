"""Designs that this project's own are measured against. Nothing of the engine uses them."""
