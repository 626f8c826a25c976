"""`jalapeno gemm`: a product of random operands on the RTL, compared bit for bit with golden."""

import click

from scripts.operands import KINDS
from scripts.options import mode_option
from scripts.products import Settings, product_options

_KINDS = "; ".join(f"{name}: {what}" for name, what in KINDS.items())


@click.command()
@click.option("--m", type=click.IntRange(0), required=True, help="Rows of activations.")
@click.option("--n", type=click.IntRange(0), required=True, help="Columns: rows of the weights.")
@click.option("--k", type=click.IntRange(0), required=True, help="Elements of a dot product.")
@mode_option()
@click.option("--operands", type=click.Choice(list(KINDS)), default="normal", show_default=True,
              help=f"{_KINDS}.")
@product_options()
def command(m: int, n: int, k: int, mode: str, operands: str, **options):
    """Multiply random matrices on the matrix engine: Y[M,N] = X[M,K] . W[N,K]^T.

    Every element of Y is compared with the golden model bit for bit; a difference ends the command with
    exit code 1, a report under runs/, and a waveform where JALAPENO_WAVES=1 is set. Any size is allowed,
    0 included.
    """
    import numpy as np

    from golden.matmul import MODES
    from scripts.operands import random_tensor
    from scripts.products import check_sizes, random_c, run_product

    settings = Settings.of(**options)
    check_sizes(m, n, k)
    rng = np.random.default_rng(settings.seed)
    x_format, w_format = MODES[mode]
    x = random_tensor(rng, m, k, x_format, operands)
    w = random_tensor(rng, n, k, w_format, operands)
    c = random_c(rng, m, n, scale=max(1, k) ** 0.5) if settings.has_c else None
    run_product(x, w, c, title=f"gemm {m}x{n}x{k} {mode}", settings=settings, more={"operands": operands})
