"""Execution units: integer, branch, multiplication, division."""
