"""OCP MX formats: elements, scales, tensors of blocks, and quantisation from binary32.

A block is 32 elements along the last axis K with one E8M0 scale. Two element formats exist here: MXFP4
has E2M1 elements, MXFP8 has E4M3 elements (OCP MX v1.0, tables 1 to 5; docs/numbers.md sections 1, 7, 8).
"""

import dataclasses
import enum
import functools

import numpy as np

__all__ = [
    "BLOCK", "SCALE_BIAS", "SCALE_NAN", "Format", "MXTensor", "block_count", "decode_e8m0",
    "decode_elements", "encode_e8m0", "encode_elements", "quantise",
]

BLOCK = 32
"""Elements that share one scale."""

SCALE_BIAS = 127
SCALE_NAN = 0xFF

# Rows quantised at a time: keeps the float64 temporaries of a whole embedding table out of memory.
_QUANTISE_ELEMENTS = 1 << 18


class Format(enum.Enum):
    """Element format of an MX tensor. Signs are in the top bit of a code; there are no infinities."""

    MXFP4 = "mxfp4"
    MXFP8 = "mxfp8"

    @property
    def element_bits(self):
        """Bits of one element code: 4 or 8."""
        return 4 if self is Format.MXFP4 else 8

    @property
    def mantissa_bits(self):
        """Bits of the stored significand: 1 (E2M1) or 3 (E4M3)."""
        return 1 if self is Format.MXFP4 else 3

    @property
    def emin(self):
        """Exponent of the smallest normal element, and of all subnormal ones: 0 or -6."""
        return 0 if self is Format.MXFP4 else -6

    @property
    def emax(self):
        """Exponent of the largest element: 2 (6.0) or 8 (448.0)."""
        return 2 if self is Format.MXFP4 else 8

    @property
    def fraction_bits(self):
        """Every element is an integer multiple of ``2**-fraction_bits``: 1 or 9."""
        return self.mantissa_bits - self.emin

    @property
    def max_code(self):
        """Code of the largest positive finite element: 0x7 (6.0) or 0x7E (448.0)."""
        return 0x7 if self is Format.MXFP4 else 0x7E

    @property
    def sign_mask(self):
        """The sign bit of a code: 0x8 or 0x80."""
        return 1 << (self.element_bits - 1)

    @property
    def nan_code(self):
        """Code of the positive NaN: 0x7F for E4M3, None for E2M1, which has no NaN."""
        return None if self is Format.MXFP4 else 0x7F

    @property
    def block_bytes(self):
        """Bytes of the 32 packed element codes of one block, without the scale: 16 or 32."""
        return BLOCK * self.element_bits // 8

    @functools.cached_property
    def table(self):
        """Value of each code: float64 [2**element_bits], read-only."""
        codes = np.arange(1 << self.element_bits)
        magnitude = codes & (self.sign_mask - 1)
        field = magnitude >> self.mantissa_bits
        significand = magnitude & ((1 << self.mantissa_bits) - 1)
        significand = np.where(field > 0, significand + (1 << self.mantissa_bits), significand)
        values = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - 1 - self.fraction_bits)
        if self.nan_code is not None:
            values[magnitude == self.nan_code] = np.nan
        values = np.where(codes & self.sign_mask, -values, values)
        values.flags.writeable = False
        return values


def block_count(k):
    """Number of blocks along K elements: ceil(k / 32)."""
    return -(-k // BLOCK)


def decode_elements(codes, format):
    """Values of element codes, without their scale.

    Parameters: ``codes``, uint8 of any shape, one code an element; ``format``, a Format.
    Returns float64 of the same shape, exact. Raises ValueError for a code wider than the format.
    """
    return format.table[_checked_codes(codes, format)]


def encode_elements(values, format):
    """Element codes nearest to values, ties to even, saturating (docs/numbers.md section 7).

    Parameters: ``values``, float32 or float64 of any shape; ``format``, a Format.
    Returns uint8 of the same shape. Values beyond the largest element, infinities included, give the
    largest element; a value that rounds to zero keeps its sign; a NaN gives E4M3's NaN of its sign.
    Raises ValueError for another dtype, or for a NaN where the format has none.
    """
    values = np.asarray(values)
    if values.dtype not in (np.float32, np.float64):
        raise ValueError(f"values has dtype {values.dtype}; encode_elements takes float32 or float64")
    isnan = np.isnan(values)
    any_nan = bool(isnan.any())
    if any_nan and format.nan_code is None:
        raise ValueError("values holds a NaN; E2M1 elements have no NaN, so only finite or infinite "
                         "values can be encoded")
    # Clipping first changes no result: what lies beyond the largest element saturates to it.
    magnitude = np.minimum(np.abs(values), values.dtype.type(format.table[format.max_code]))
    if any_nan:
        magnitude = np.where(isnan, values.dtype.type(0), magnitude)
    # Zero and subnormal elements share the exponent emin (and frexp would call the exponent of zero 0).
    exponent = np.frexp(np.maximum(magnitude, values.dtype.type(2.0**format.emin)))[1] - 1
    # Units of the last place of the element; rint rounds half to even, and even here is even in the code.
    units = np.rint(np.ldexp(magnitude, format.mantissa_bits - exponent)).astype(np.int32)
    codes = ((exponent - format.emin) << format.mantissa_bits) + units
    if any_nan:
        codes = np.where(isnan, format.nan_code, codes)
    return (codes + np.where(np.signbit(values), format.sign_mask, 0)).astype(np.uint8)


def decode_e8m0(scales):
    """Values of scale bytes: 2^(byte - 127) as float64, NaN for 0xFF; any shape."""
    scales = _checked_bytes("scales", scales)
    return np.where(scales == SCALE_NAN, np.nan, np.ldexp(1.0, scales.astype(np.int32) - SCALE_BIAS))


def encode_e8m0(values):
    """Scale bytes of exact powers of two 2^-127..2^127 or NaN; any shape.

    Raises ValueError for any other value: a scale is chosen by an exponent rule, never by rounding.
    """
    values = np.asarray(values, dtype=np.float64)
    isnan = np.isnan(values)
    fraction, exponent = np.frexp(np.where(isnan, 1.0, values))
    byte = exponent - 1 + SCALE_BIAS
    wrong = (fraction != 0.5) | (byte < 0) | (byte > 254)
    if wrong.any():
        raise ValueError(f"scale value {values[wrong].flat[0]} is not allowed; E8M0 holds powers of two "
                         "from 2^-127 to 2^127, and NaN")
    return np.where(isnan, SCALE_NAN, byte).astype(np.uint8)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MXTensor:
    """A tensor of MX blocks along its last axis.

    Members: ``format``, a Format; ``codes``, uint8 [..., K], one element code a byte (not packed);
    ``scales``, uint8 [..., ceil(K/32)], E8M0. Construction raises ValueError where they do not agree.
    Only the K elements exist: what fills a last, ragged block in packed form is no part of the tensor.
    """

    format: Format
    codes: np.ndarray
    scales: np.ndarray

    def __post_init__(self):
        if not isinstance(self.format, Format):
            raise ValueError(f"format is {self.format!r}; allowed are Format.MXFP4 and Format.MXFP8")
        _checked_codes(self.codes, self.format)
        _checked_bytes("scales", self.scales)
        if self.codes.ndim == 0:
            raise ValueError("codes has shape (); an MX tensor needs an axis K")
        expected = (*self.codes.shape[:-1], block_count(self.k))
        if self.scales.shape != expected:
            raise ValueError(f"scales has shape {self.scales.shape}; codes of shape {self.codes.shape} "
                             f"need {expected}, one scale for each 32 elements")

    @property
    def shape(self):
        """Shape in elements, [..., K]."""
        return self.codes.shape

    @property
    def k(self):
        """Length of the last axis, in elements."""
        return self.codes.shape[-1]

    def __getitem__(self, index):
        """The same blocks along K, with NumPy indexing of the leading axes only (None adds one)."""
        index = index if isinstance(index, tuple) else (index,)
        used = sum(part is not None for part in index)
        if used >= self.codes.ndim or any(part is Ellipsis for part in index):
            raise ValueError(f"index {index} is not allowed; it may name the {self.codes.ndim - 1} leading "
                             "axes only, because K is cut in blocks")
        return MXTensor(format=self.format, codes=self.codes[index], scales=self.scales[index])

    def block(self, index):
        """Block ``index`` (0..ceil(K/32)-1) as a tensor of its own, [..., 32] or less in a ragged last one.

        Raises ValueError for a block that is not there.
        """
        if not 0 <= index < block_count(self.k):
            raise ValueError(f"block is {index}; K = {self.k} has {block_count(self.k)} blocks, "
                             "counted from 0")
        return MXTensor(format=self.format, codes=self.codes[..., index * BLOCK : (index + 1) * BLOCK],
                        scales=self.scales[..., index : index + 1])

    def dequantise(self):
        """Values with their scales: float64 [..., K], exact; NaN where the element or its scale is."""
        return decode_elements(self.codes, self.format) * self._scales_by_element()

    def _scales_by_element(self):
        return np.repeat(decode_e8m0(self.scales), BLOCK, axis=-1)[..., : self.k]

    def blocks(self):
        """Codes in whole blocks: uint8 [..., ceil(K/32), 32]; lanes beyond K are code 0."""
        count = block_count(self.k)
        codes = self.codes
        if count * BLOCK != self.k:
            pad = [(0, 0)] * (codes.ndim - 1) + [(0, count * BLOCK - self.k)]
            codes = np.pad(codes, pad)
        return codes.reshape(*codes.shape[:-1], count, BLOCK)

    def pack(self):
        """Element bytes as checkpoints store them (docs/numbers.md section 8).

        Returns uint8 [..., ceil(K/32), 16] for MXFP4 with element 2i in the low nibble of byte i, the
        layout of gpt-oss ``*_blocks``; [..., ceil(K/32), 32] for MXFP8. Lanes beyond K are 0. The scales
        are stored beside it, as they are.
        """
        blocks = self.blocks()
        if self.format is Format.MXFP8:
            return blocks.copy()
        return blocks[..., 0::2] | (blocks[..., 1::2] << 4)

    @classmethod
    def unpack(cls, format, blocks, scales, k=None):
        """Tensor from packed blocks.

        Parameters: ``blocks``, uint8 [..., B, 16 or 32] as from :meth:`pack`; ``scales``, uint8 [..., B];
        ``k``, number of elements (default all, 32 B). Lanes, blocks and scales beyond k are dropped
        unread. Raises ValueError where shapes do not agree or k needs more blocks than there are.
        """
        blocks = _checked_bytes("blocks", blocks)
        scales = _checked_bytes("scales", scales)
        if blocks.ndim < 2 or blocks.shape[-1] != format.block_bytes:
            raise ValueError(f"blocks has shape {blocks.shape}; {format.name} needs [..., blocks, "
                             f"{format.block_bytes}]")
        if scales.shape != blocks.shape[:-1]:
            raise ValueError(f"scales has shape {scales.shape}; blocks of shape {blocks.shape} need "
                             f"{blocks.shape[:-1]}")
        available = blocks.shape[-2] * BLOCK
        k = available if k is None else k
        if not 0 <= k <= available:
            raise ValueError(f"k is {k}; {blocks.shape[-2]} blocks allow 0..{available}")
        if format is Format.MXFP4:
            blocks = np.stack([blocks & 0xF, blocks >> 4], axis=-1)
        codes = blocks.reshape(*scales.shape[:-1], available)[..., :k]
        return cls(format=format, codes=codes, scales=scales[..., : block_count(k)])


def quantise(x, format):
    """Blocks of 32 along the last axis from binary32 (docs/numbers.md section 7).

    Parameters: ``x``, float32 [..., K]; ``format``, a Format.
    Returns an MXTensor of shape [..., K]. The scale's exponent is that of the largest magnitude minus the
    format's emax, so that magnitude may saturate (7.9 becomes 6 in MXFP4), as OCP MX v1.0 section 6.3
    gives it. Raises ValueError if x is not float32 or has no axis.
    """
    x = np.asarray(x)
    if x.dtype != np.float32 or x.ndim == 0:
        raise ValueError(f"x has dtype {x.dtype} and shape {x.shape}; quantise takes float32 [..., K]")
    k = x.shape[-1]
    rows = x.reshape(int(np.prod(x.shape[:-1])), k)
    codes = np.empty(rows.shape, np.uint8)
    scales = np.empty((len(rows), block_count(k)), np.uint8)
    step = max(1, _QUANTISE_ELEMENTS // max(k, 1))
    for start in range(0, len(rows), step):
        stop = start + step
        codes[start:stop], scales[start:stop] = _quantise_rows(rows[start:stop], format)
    return MXTensor(format=format, codes=codes.reshape(x.shape),
                    scales=scales.reshape(*x.shape[:-1], block_count(k)))


def _quantise_rows(rows, format):
    count, k = rows.shape
    padded = np.pad(rows, ((0, 0), (0, block_count(k) * BLOCK - k)))
    blocks = padded.reshape(count, block_count(k), BLOCK)
    # The largest magnitude has the largest encoding without sign, so its exponent field is read from
    # integers: no logarithm, and a NaN or infinity shows as field 255.
    largest = (blocks.view(np.uint32) & 0x7FFFFFFF).max(axis=-1, initial=0)
    field = (largest >> 23).astype(np.int32)
    special = field == 255
    scale = np.where(special, 0, np.maximum(field - format.emax, 0))
    # 2^(127 - scale), built from its encoding; a normal number because scale is at most 254 - emax.
    inverse = ((254 - scale) << 23).astype(np.uint32).view(np.float32)
    # Exact unless the product is subnormal, and then it is far below half the smallest element.
    scaled = np.where(special[..., None], np.float32(0), blocks) * inverse[..., None]
    codes = encode_elements(scaled, format).reshape(count, -1)[:, :k]
    return codes, np.where(special, SCALE_NAN, scale).astype(np.uint8)


def _checked_bytes(name, array):
    array = np.asarray(array)
    if array.dtype != np.uint8:
        raise ValueError(f"{name} has dtype {array.dtype}; allowed is uint8")
    return array


def _checked_codes(codes, format):
    codes = _checked_bytes("codes", codes)
    if format.element_bits < 8 and codes.size and int(codes.max()) >> format.element_bits:
        raise ValueError(f"codes holds {int(codes.max()):#x}; {format.name} allows 0..0xf")
    return codes
