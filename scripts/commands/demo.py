"""`jalapeno demo`: a language model writes, every product of it computed by the engine's RTL."""

import contextlib
import json
import os
import shlex
import sys
import time
from pathlib import Path

import click

from hw.config import MODES, preset
from scripts.cli import CheckFailed
from scripts.report import json_option, print_json, print_table, progress

PROMPT = "The capital of France is"
PRESET = "full"


@click.command()
@click.option("--prompt", default=PROMPT, show_default=True, help="Text to continue.")
@click.option("--tokens", type=click.IntRange(1, 1000), default=None,
              help="How many tokens to write; default 4 with the RTL, 16 with the fast view.")
@click.option("--mode", type=click.Choice(MODES), default="mxfp8_mxfp8", show_default=True,
              help="Number formats as activations_weights.")
@click.option("--view", type=click.Choice(("rtl", "fast")), default="rtl", show_default=True,
              help="Of arrays and binary32 units: their RTL (a minute a token), or the fast description "
                   "which equals it in every cycle (tests/test_fast_view.py).")
@click.option("--quick", is_flag=True, help="Only two layers of the model: the text makes no sense.")
@click.option("--simulators", type=click.IntRange(1, 16), default=os.cpu_count() or 1, show_default=True,
              help="Simulations of the engine, side by side; columns of each product are shared out.")
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True,
              help="0 takes the most likely token; above, tokens are drawn.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws.")
@click.option("--wave/--no-wave", "with_wave", default=True, show_default=True,
              help="Run the first product once more on a small unit and keep its waveform.")
@click.option("--report", type=click.Path(path_type=Path), default=None, metavar="DIR",
              help="Where report and waveform go; by default a new directory under runs/.")
@json_option
def command(prompt, tokens, mode, view, quick, simulators, temperature, seed, with_wave, report, as_json):
    """Continue a prompt with SmolLM2-135M on the matrix engine of one full-size tile.

    Every linear layer and both products of attention run on the simulated engine (16 units of 64x64), and
    every element of every result is compared with the golden model. Norms, softmax and rotary embedding are
    done by the host.
    """
    from sw.lm.generate import Sampler

    tokens = tokens or (16 if view == "fast" else 4)
    directory = report or _new_directory()
    repeat = shlex.join(["jalapeno", "demo", "--prompt", prompt, "--tokens", str(tokens), "--mode", mode,
                         "--view", view, "--temperature", str(temperature), "--seed", str(seed),
                         *(["--quick"] if quick else [])])
    with contextlib.ExitStack() as stack:
        session = _prepare(stack, mode, view, quick, simulators, repeat)
        figures = {"prompt": prompt, "mode": mode, "view": view, "layers": session.parameters.config.layers,
                   "preset": PRESET, "simulators": simulators, "command": repeat}
        try:
            _write(session, prompt, tokens, Sampler(temperature=temperature, seed=seed), as_json)
        except KeyboardInterrupt:
            say("interrupted: the report holds what was done up to here")
            _save(directory, figures | _summary(session, None))
            raise
    closeness = session.closeness()
    figures |= _summary(session, closeness)
    if with_wave:
        figures["wave"] = _wave_of_first(session, directory)
    path = _save(directory, figures)
    if as_json:
        print_json(figures)
    else:
        _print(figures, path)
    if figures["mismatches"]:
        raise CheckFailed(f"{figures['mismatches']} elements differ from golden")


def say(line):
    """A line beside the text: what goes on."""
    print(line, file=sys.stderr, flush=True)


def _new_directory():
    from tb.runs import runs_root

    return runs_root() / time.strftime("demo-%Y%m%d-%H%M%S")


def _prepare(stack, mode, view, quick, simulators, repeat):
    """Simulators, weights and the seam between them."""
    from sw.engine.engine import SimulatedEngine
    from sw.lm.engine_products import EngineProducts
    from sw.lm.parameters import Parameters
    from sw.lm.products import QuantisedWeights, formats_of
    from sw.lm.session import Session
    from sw.lm.weights import find_weights

    parameters = Parameters(find_weights(say=say), layers=2 if quick else None)
    config = preset(PRESET).tile.matrix
    engines = [stack.enter_context(SimulatedEngine(config, view=view, log=say)) for _ in range(simulators)]
    names = list(parameters.config.linear_shapes())
    with progress("weights", 2 * len(names)) as advance:
        weights = QuantisedWeights(parameters, formats_of(mode)[1], progress=lambda name: advance(1, name))
        products = EngineProducts(engines, weights, mode, command=repeat)
        products.upload(progress=lambda name: advance(1, name))
    return Session(parameters, engines, products)


def _write(session, prompt, tokens, sampler, as_json):
    """Stream the text; the bar counts products."""
    show = (lambda text: None) if as_json else (lambda text: print(text, end="", flush=True))
    total = session.products_of_pass() * tokens
    show(prompt)
    with progress("products", total) as advance:
        session.products.on_product = lambda kind, cycles: advance(1, f"{session.cycles:,} cycles")
        for step in session.run(prompt, tokens=tokens, sampler=sampler):
            show(step.text)
    show("\n")


def _summary(session, closeness):
    """All figures of the run as one object."""
    clock = preset(PRESET).tile.clock_ghz * 1e9
    kinds = session.by_kind()
    cycles = sum(row["cycles"] for row in kinds)
    peak = session.engines[0].config.macs_per_cycle(session.products.mode)
    seconds = sum(cost.seconds for cost in session.costs)
    decode = [cost.cycles for cost in session.costs if cost.rows == 1]
    figures = {
        "text": "".join(step.text for step in session.steps),
        "tokens": len(session.steps), "prompt_tokens": len(session.prompt_tokens),
        "products": sum(row["products"] for row in kinds), "cycles": cycles,
        "products_of_a_pass": session.products_of_pass(),
        "compared": sum(row["compared"] for row in kinds),
        "mismatches": sum(row["mismatches"] for row in kinds),
        "utilisation": sum(row["macs"] for row in kinds) / (cycles * peak) if cycles else 0.0,
        "cycles_of_the_prompt": session.costs[0].cycles if session.costs else 0,
        "seconds_to_the_first_token": session.costs[0].seconds if session.costs else None,
        "simulated_cycles_per_second": cycles / seconds if seconds else None,
        "kinds": kinds,
    }
    if decode:
        figures["cycles_per_token"] = sum(decode) / len(decode)
        figures["tokens_per_second_of_one_tile"] = clock / figures["cycles_per_token"]
    if closeness:
        figures["same_token_rate"] = closeness.same_token_rate
        figures["logit_sqnr_db"] = closeness.logit_sqnr_db
    return figures


def _wave_of_first(session, directory):
    """The first product once more, its first columns on one small traced unit: the same bits."""
    from golden.matmul import matmul
    from sw.engine.engine import SimulatedEngine
    from sw.engine.product import check, multiply

    config = preset("tiny").tile.matrix
    name, x, w = session.products.first
    x, w = x[:config.accumulator_rows], w[:4 * config.cols]
    path = directory / "first-product.fst"
    directory.mkdir(parents=True, exist_ok=True)
    with SimulatedEngine(config, waves=True, log=say) as engine:
        product = multiply(engine, x, w, wave=str(path))
        check(engine, product, matmul(x, w), test=f"first product {name}")
    return {"file": str(path), "product": name, "rows": x.shape[0], "columns": w.shape[0], "k": x.k,
            "preset": "tiny", "cycles": product.cycles}


def _save(directory, figures):
    """Write the report; the file appears whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "report.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(figures, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def _print(figures, path):
    print()
    print_table(f"Products on the {figures['preset']} engine, {figures['mode']}, {figures['view']} view",
                ("kind", "weights", "products", "cycles", "utilisation", "compared", "mismatches"),
                [[row["kind"], row["weights"], row["products"], row["cycles"], f"{row['utilisation']:.2%}",
                  row["compared"], row["mismatches"]] for row in figures["kinds"]])
    rows = [("products of a forward pass", figures["products_of_a_pass"]),
            ("elements compared / differing", f"{figures['compared']:,} / {figures['mismatches']:,}"),
            ("engine cycles of the prompt", figures["cycles_of_the_prompt"])]
    if "cycles_per_token" in figures:
        rows += [("engine cycles a token after it", round(figures["cycles_per_token"])),
                 ("tokens/s at 1.6 GHz, one tile, matrix engine only",
                  round(figures["tokens_per_second_of_one_tile"]))]
    rows += [("same token as float32", f"{figures['same_token_rate']:.1%} of {figures['tokens']}"),
             ("logit SQNR against float32", f"{figures['logit_sqnr_db']:.1f} dB"),
             ("simulated cycles a second", round(figures["simulated_cycles_per_second"])),
             ("seconds to the first token", round(figures["seconds_to_the_first_token"], 1))]
    print_table("The run", ("what", "value"), rows)
    print(f"report: {path}")
    if "wave" in figures:
        wave = figures["wave"]
        print(f"wave:   {wave['file']}  ({wave['product']}, first {wave['columns']} columns on a "
              f"{wave['preset']} unit)")
