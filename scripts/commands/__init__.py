"""Sub-commands of `jalapeno`: each module holds one click command named `command`."""
