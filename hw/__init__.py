"""The hardware: Amaranth components, and the configuration that every size of it is built from."""
