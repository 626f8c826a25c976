"""Stimuli, references and drivers for the pipelines of hw.numbers."""
