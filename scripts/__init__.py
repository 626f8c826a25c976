"""The `jalapeno` command, its figures, and the set-up script."""
