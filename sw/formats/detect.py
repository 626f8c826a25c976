"""Which format a model file has, by its first bytes; files that can run code are refused here."""

from pathlib import Path

from sw.formats.gguf import GgufFile
from sw.formats.llama2c import Llama2cFile
from sw.formats.model_file import Bytes, ModelFile, ModelFileError
from sw.formats.safetensors import SafetensorsFile

_PICKLE_NAMES = {".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib"}
_PICKLE_BINS = ("pytorch_model", "adapter_model", "optimizer", "training_args")
_KNOWN = "GGUF, safetensors and llama2.c files are accepted"


def open_model(path: "str | Path") -> ModelFile:
    """Open a model file of any accepted format.

    Returns: a `ModelFile` with all headers checked against the size of the file.
    Errors: `ModelFileError`, one sentence, for a missing, empty, truncated, unknown or unsafe file.
    """
    path = Path(path)
    if path.suffix.lower() in _PICKLE_NAMES or (
        path.suffix.lower() == ".bin" and path.name.lower().startswith(_PICKLE_BINS)
    ):
        raise ModelFileError(
            f"{path}: a {path.suffix} checkpoint is a pickle, which can run code, and is never loaded; "
            "convert it to safetensors."
        )
    file = Bytes(path)
    head = file.array[:16].tobytes()
    if _is_pickle(head):
        raise ModelFileError(
            f"{path}: holds a pickle or a zip archive, which can run code, and is never loaded; "
            "convert it to safetensors."
        )
    if head[:4] == b"GGUF":
        return GgufFile(file)
    if path.suffix.lower() == ".gguf":
        raise ModelFileError(f"{path}: does not begin with the GGUF magic; truncated or not a GGUF file.")
    if path.suffix.lower() == ".safetensors":
        return SafetensorsFile(file)
    if Llama2cFile.plausible(file):
        return Llama2cFile(file)
    if head[8:9] == b"{":
        return SafetensorsFile(file)
    if head[:4] == b"24ka":
        raise ModelFileError(
            f"{path}: llama2.c version 1 or 2; only version 0 (float32, 28-byte header) is accepted."
        )
    if path.suffix.lower() == ".bin":
        return Llama2cFile(file)
    raise ModelFileError(f"{path}: unknown file format (first bytes {head[:8].hex(' ')}); {_KNOWN}.")


def _is_pickle(head: bytes) -> bool:
    """Zip archives (current PyTorch) and binary pickles (protocols 2 to 5).

    A llama2.c header may also begin with 0x80 0x02 (dim 640); there a zero byte follows, which is no pickle
    opcode.
    """
    if head[:2] == b"PK" and head[2:4] in (b"\x03\x04", b"\x05\x06", b"\x07\x08"):
        return True
    return len(head) >= 3 and head[0] == 0x80 and 1 <= head[1] <= 5 and head[2] != 0
