"""The HBM slice of a tile: front end, one controller a pseudo-channel, ECC and scrubbing."""
