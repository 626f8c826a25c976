"""`jalapeno layer`: a tensor of a model file through the matrix engine."""

import math

import click

from hw.config import MODES
from scripts.products import Settings, product_options


@click.command()
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--tensor", metavar="NAME",
              help="Weights [N, K]; NAME[3] is matrix 3 of a tensor with more dimensions.")
@click.option("--list", "lists", is_flag=True, help="List the tensors of the file.")
@click.option("--m", "rows", type=click.IntRange(0), default=1, show_default=True,
              help="Rows of random activations.")
@click.option("--mode", type=click.Choice(MODES), metavar="MODE",
              help=f"Number formats as activations_weights: {', '.join(MODES)}; by default MXFP8 activations "
                   "with weights as the file stores them, or MXFP4 where it stores floating point.")
@product_options()
def command(file: str, tensor: str | None, lists: bool, rows: int, mode: str | None, **options):
    """Multiply random activations with a tensor of a model file: Y[M,N] = X[M,K] . W[N,K]^T.

    FILE is safetensors (float32, float16, bfloat16, or a *_blocks / *_scales pair as in gpt-oss), GGUF, or
    llama2.c. MX blocks of the file go to the engine as they are; other tensors are quantised. Every element
    of Y is compared with the golden model bit for bit.
    """
    from sw.formats import open_model

    settings = Settings.of(**options)
    model = open_model(file)
    if lists:
        _list(model, settings.as_json)
        return
    if tensor is None:
        raise click.UsageError("Missing option '--tensor'; --list shows what the file has.")
    _multiply(model, tensor, rows, mode, settings)


def _list(model, as_json: bool) -> None:
    from scripts.report import print_json, print_table

    if as_json:
        print_json({"file": str(model.path), "format": model.format,
                    "tensors": [{"name": t.name, "shape": list(t.shape), "kind": t.kind}
                                for t in model.tensors.values()]})
        return
    print_table(f"{model.path} ({model.format}, {len(model.tensors)} tensors)",
                ("tensor", "shape", "kind", "matrices [N, K]"),
                [(t.name, " x ".join(map(str, t.shape)) or "scalar", t.kind, _matrices(t))
                 for t in model.tensors.values()])


def _matrices(tensor) -> str:
    """What to give to `--tensor` for a matrix of it."""
    if len(tensor.shape) < 2:
        return "none"
    if len(tensor.shape) == 2:
        return tensor.name
    last = "".join(f"[{size - 1}]" for size in tensor.shape[:-2])
    return f"up to {tensor.name}{last}" if math.prod(tensor.shape[:-2]) else "none"


def _multiply(model, name: str, rows: int, mode: str | None, settings: Settings) -> None:
    import numpy as np

    from golden.formats import Format, MXTensor, quantise
    from golden.matmul import MODES as FORMATS
    from scripts.operands import as_weights
    from scripts.products import check_sizes, random_c, run_product

    matrix = model.load_matrix(name)
    stored = isinstance(matrix, MXTensor)
    if mode is None:
        mode = "mxfp8_mxfp8" if stored and matrix.format is Format.MXFP8 else "mxfp8_mxfp4"
    x_format, w_format = FORMATS[mode]
    w = as_weights(matrix, w_format, name)
    n, k = w.shape
    check_sizes(rows, n, k)
    rng = np.random.default_rng(settings.seed)
    activations = rng.standard_normal((rows, k), dtype=np.float32)
    exact = matrix.dequantise() if stored else matrix.astype(np.float64)
    scale = float(np.sqrt(np.mean(np.square(exact)) * k)) if exact.size else 1.0
    c = random_c(rng, rows, n, scale=scale if math.isfinite(scale) else 1.0) if settings.has_c else None
    kind = model.find(name)[0].kind
    form = "as stored" if stored else f"cast to {w_format.name}"
    notes = {"weights": f"{kind} of {model.path.name}, {form}"}

    def measure(y):
        """How far the engine's result lies from that of unquantised operands, in dB."""
        if not isinstance(y, np.ndarray) or not y.size:
            return {}
        with np.errstate(all="ignore"):
            ideal = activations.astype(np.float64) @ exact.T + (0 if c is None else c)
            error = np.sum(np.square(y - ideal))
            signal = np.sum(np.square(ideal))
        if not (np.isfinite(error) and error > 0 and signal > 0):
            why = "nothing is lost" if error == 0 else "none: not every element of the product is a number"
            return {"sqnr_db": None, "notes": notes | {"signal to noise": why if signal else "none: Y is 0"}}
        decibels = 10 * math.log10(signal / error)
        return {"sqnr_db": decibels, "notes": notes | {
            "signal to noise": f"{decibels:.1f} dB against the same product in binary64, nothing quantised"}}

    run_product(quantise(activations, x_format), w, c, settings=settings, measure=measure,
                title=f"layer {name} {rows}x{n}x{k} {mode}",
                more={"file": str(model.path), "format": model.format, "tensor": name, "kind": kind,
                      "weights_as_stored": stored, "notes": notes})
