"""Jobs for the matrix engine, easy and awkward ones, and their comparison with golden."""
