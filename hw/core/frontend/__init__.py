"""Front end of the core: prediction, instruction cache, fetch, decode."""
