"""Host software: readers of model files, the language model of the main job, the driver of the engine."""
