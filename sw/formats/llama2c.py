"""llama2.c model files, version 0: 7 int32 numbers, then float32 tensors.

Source: `Config` and `memory_map_weights` of run.c in the llama2.c repository. A negative vocabulary size says
that the classifier is not shared with the embedding. The two rotary tables after the last norm are unused
by run.c since long, but their bytes are there.
"""

import struct
from dataclasses import dataclass

from sw.formats import storage
from sw.formats.model_file import Bytes, ModelFile, ModelFileError, TensorInfo

_HEADER = struct.Struct("<7i")
_FIELDS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")


@dataclass(frozen=True, kw_only=True)
class _Header:
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    seq_len: int

    def problem(self) -> str | None:
        """What is wrong with these numbers, or None."""
        for field in _FIELDS:
            if getattr(self, field) <= 0 and not (field == "vocab_size" and self.vocab_size < 0):
                return f"{field} is {getattr(self, field)}; it must be positive"
        if self.dim % (2 * self.n_heads):
            return f"dim {self.dim} is not an even multiple of n_heads {self.n_heads}"
        if self.n_heads % self.n_kv_heads:
            return f"n_heads {self.n_heads} is not a multiple of n_kv_heads {self.n_kv_heads}"
        return None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Tensor name as in run.c -> shape, in file order."""
        head = self.dim // self.n_heads
        layers, dim, hidden, vocab = self.n_layers, self.dim, self.hidden_dim, abs(self.vocab_size)
        shapes = {
            "token_embedding_table": (vocab, dim),
            "rms_att_weight": (layers, dim),
            "wq": (layers, dim, dim),
            "wk": (layers, head * self.n_kv_heads, dim),
            "wv": (layers, head * self.n_kv_heads, dim),
            "wo": (layers, dim, dim),
            "rms_ffn_weight": (layers, dim),
            "w1": (layers, hidden, dim),
            "w2": (layers, dim, hidden),
            "w3": (layers, hidden, dim),
            "rms_final_weight": (dim,),
            "freq_cis_real": (self.seq_len, head // 2),
            "freq_cis_imag": (self.seq_len, head // 2),
        }
        if self.vocab_size < 0:
            shapes["wcls"] = (vocab, dim)
        return shapes

    def size(self) -> int:
        """Bytes of a whole file."""
        total = sum(TensorInfo(name=n, shape=s, kind="F32").elements for n, s in self.shapes().items())
        return _HEADER.size + 4 * total


class Llama2cFile(ModelFile):
    """A llama2.c file; a tensor of all layers is [layers, N, K], one matrix of it is "wq[3]"."""

    format = "llama2.c"

    def __init__(self, file: Bytes):
        super().__init__(file.path)
        self._file = file
        self._stored: dict[str, storage.Stored] = {}
        if len(file) < _HEADER.size:
            raise ModelFileError(
                f"{file.path}: truncated: {len(file)} bytes, a llama2.c header alone takes {_HEADER.size}."
            )
        header = _read_header(file)
        if problem := header.problem():
            raise ModelFileError(f"{file.path}: not a llama2.c model file: {problem}.")
        if header.size() != len(file):
            raise ModelFileError(
                f"{file.path}: {'truncated' if len(file) < header.size() else 'not a llama2.c model file'}: "
                f"its header asks for {header.size()} bytes, the file has {len(file)}."
            )
        self.metadata |= {field: getattr(header, field) for field in _FIELDS}
        offset = _HEADER.size
        for name, shape in header.shapes().items():
            info = TensorInfo(name=name, shape=shape, kind="F32")
            self.tensors[name] = info
            self._stored[name] = storage.Stored(info=info, offset=offset, nbytes=4 * info.elements)
            offset += 4 * info.elements

    @staticmethod
    def plausible(file: Bytes) -> bool:
        """Whether a file without a telling name is one: there is no magic, so the size must be exact."""
        return (
            len(file) >= _HEADER.size
            and (header := _read_header(file)).problem() is None
            and header.size() == len(file)
        )

    def _read(self, info, index):
        return storage.read(self._file, self._stored[info.name], index)


def _read_header(file: Bytes) -> _Header:
    numbers = _HEADER.unpack(file.take(0, _HEADER.size, "the header").tobytes())
    return _Header(**dict(zip(_FIELDS, numbers)))
