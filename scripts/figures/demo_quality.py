"""Figures of the language model: what each MX mode costs against float32 on the shipped text, by golden."""

from golden.matmul import MODES

KEYS = ("demo.float32.", *(f"demo.{mode}." for mode in MODES))


def measure(*, quick: bool) -> dict[str, object]:
    """Perplexity ratio, same-token rate and logit SQNR of each mode; perplexity of the reference."""
    if quick:
        return {}  # a pass of the whole model over the text takes about a minute a mode
    from sw.lm.evaluate import evaluate
    from sw.lm.parameters import Parameters
    from sw.lm.weights import find_weights

    found = evaluate(Parameters(find_weights()))
    figures: dict[str, object] = {"demo.float32.perplexity": round(found["float32"].perplexity, 3)}
    for mode in MODES:
        quality = found[mode]
        figures[f"demo.{mode}.perplexity_ratio"] = round(quality.perplexity_ratio, 4)
        figures[f"demo.{mode}.same_token_rate"] = round(quality.same_token_rate, 4)
        figures[f"demo.{mode}.logit_sqnr_db"] = round(quality.logit_sqnr_db, 2)
    return figures
