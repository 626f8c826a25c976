"""Readers of model files: GGUF, safetensors (gpt-oss `*_blocks` / `*_scales` pairs included), llama2.c.

`open_model(path)` looks at the file, picks the reader and gives a `ModelFile`. Nothing that can run code
is ever loaded; a pickle is refused by its name and by its first bytes.
"""

from sw.formats.detect import open_model
from sw.formats.model_file import ModelFile, ModelFileError, TensorInfo

__all__ = ["ModelFile", "ModelFileError", "TensorInfo", "open_model"]
