"""`jalapeno demo`: a language model writes, every product of it computed by the engine's RTL."""

import contextlib
import json
import os
import shlex
import sys
import time
from pathlib import Path

import click

from hw.config import MODES, PRESETS, preset
from scripts.cli import CheckFailed
from scripts.options import FiniteRange
from scripts.report import json_option, print_json, print_table, progress

PROMPT = "The capital of France is"
TOKENS = {"rtl": 4, "fast": 16}


@click.command()
@click.option("--prompt", default=PROMPT, show_default=True, help="Text to continue.")
@click.option("--tokens", type=click.IntRange(1, 1000), default=None,
              help="How many tokens to write; default 4 with the RTL, 16 with the fast view.")
@click.option("--mode", type=click.Choice(MODES), default="mxfp8_mxfp8", show_default=True,
              help="Number formats as activations_weights.")
@click.option("--view", type=click.Choice(tuple(TOKENS)), default="rtl", show_default=True,
              help="Of arrays and binary32 units: their RTL (a minute a token), or the fast description "
                   "which equals it in every cycle (tests/test_fast_view.py).")
@click.option("--quick", is_flag=True, help="Only two layers of the model: the text makes no sense.")
@click.option("--preset", "preset_name", type=click.Choice(tuple(PRESETS)), default="full", show_default=True,
              help="Size of the engine.")
@click.option("--model", type=click.Path(path_type=Path), default=None, metavar="FILE.gguf",
              help="Another model of the LLaMA type; SmolLM2-135M by default.")
@click.option("--simulators", type=click.IntRange(1, 16), default=os.cpu_count() or 1, show_default=True,
              help="Simulations of the engine, side by side; columns of each product are shared out.")
@click.option("--temperature", type=FiniteRange(0, 100), default=0.0, show_default=True,
              help="0 takes the most likely token; above, tokens are drawn.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws.")
@click.option("--wave/--no-wave", "with_wave", default=True, show_default=True,
              help="Run the first product once more on a tiny unit and keep its waveform.")
@click.option("--report", type=click.Path(file_okay=False, path_type=Path), default=None, metavar="DIR",
              help="Where report and waveform go; by default a new directory under runs/.")
@json_option
def command(prompt, tokens, mode, view, quick, preset_name, model, simulators, temperature, seed, with_wave,
            report, as_json):
    """Continue a prompt with SmolLM2-135M on the matrix engine of one full-size tile.

    Every linear layer and both products of attention run on the simulated engine (16 units of 64x64), and
    every element of every result is compared with the golden model. Norms, softmax and rotary embedding are
    done by the host. At the end the mode's error against float32 is measured on a short text, by the golden
    model.
    """
    from sw.lm.generate import Sampler
    from tb.report import CheckFailure

    tokens, tile = tokens or TOKENS[view], preset(preset_name).tile
    repeat = shlex.join(["jalapeno", "demo", "--prompt", prompt, "--tokens", str(tokens), "--mode", mode,
                         "--view", view, "--simulators", str(simulators), "--temperature", str(temperature),
                         "--seed", str(seed),
                         *(["--quick"] if quick else []), *(["--model", str(model)] if model else []),
                         *(["--preset", preset_name] if preset_name != "full" else [])])
    parameters = _parameters(model, quick, prompt, tokens)
    directory = report or _new_directory()
    directory.mkdir(parents=True, exist_ok=True)  # a place that cannot be written to is said at once
    figures = {"state": "not finished", "prompt": prompt, "mode": mode, "view": view,
               "layers": parameters.config.layers, "preset": preset_name, "simulators": simulators,
               "command": repeat}
    try:
        with contextlib.ExitStack() as stack:
            session = _session(stack, parameters, mode, view, tile.matrix, simulators, repeat)
            try:
                _write(session, prompt, tokens, Sampler(temperature=temperature, seed=seed), as_json)
            finally:  # whatever ended the run, the report has what was done
                figures |= _summary(session, tile.clock_ghz)
        _save(directory, figures)  # without what follows, should that be interrupted
        figures |= _quality(session, whole_model=not quick and model is None)
        if with_wave:
            figures["wave"] = _wave_of_first(session, directory)
        figures["state"] = "done"
    except KeyboardInterrupt:
        figures["state"] = "interrupted"
        say(f"interrupted: {directory / 'report.json'} holds what was done up to here")
        raise
    except CheckFailure as failure:
        figures |= {"state": "failed", "failure": failure.report.as_json()}
        say(failure.report.sentence())
        if failure.report.directory:
            say(f"Report: {failure.report.directory}")
        if as_json:
            print_json(figures)
        raise CheckFailed(f"{failure.report.test} failed; `jalapeno wave` shows it.") from None
    finally:
        path = _save(directory, figures)
    if as_json:
        print_json(figures)
    else:
        _print(figures, path)


def say(line):
    """A line beside the text: what goes on."""
    print(line, file=sys.stderr, flush=True)


def _new_directory():
    from tb.runs import runs_root

    return runs_root() / time.strftime("demo-%Y%m%d-%H%M%S")


def _parameters(model, quick, prompt, tokens):
    """The model; what it cannot do is said before anything is built."""
    from sw.lm.parameters import Parameters
    from sw.lm.tokenizer import ByteLevelTokenizer
    from sw.lm.weights import find_weights

    parameters = Parameters(model or find_weights(say=say), layers=2 if quick else None)
    length, most = len(ByteLevelTokenizer(parameters.file).encode(prompt)), parameters.config.positions
    if not length:
        raise ValueError("prompt is empty; at least one character is required.")
    if length + tokens > most:
        raise ValueError(f"prompt has {length} tokens and --tokens is {tokens}; together at most {most}, "
                         "the model's positions, are allowed.")
    return parameters


def _session(stack, parameters, mode, view, config, simulators, repeat):
    """Simulators, weights and the seam between them."""
    from sw.engine.engine import SimulatedEngine
    from sw.lm.engine_products import EngineProducts
    from sw.lm.products import QuantisedWeights, formats_of
    from sw.lm.session import Session

    engines = [SimulatedEngine(config, view=view, log=say)]
    engines += [SimulatedEngine(config, view=view, bench=engines[0].bench) for _ in range(1, simulators)]
    for engine in engines:
        stack.enter_context(engine)
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
    try:
        with progress("products", total) as advance:
            session.products.on_product = lambda kind, cycles: advance(1, f"{session.cycles:,} cycles")
            for step in session.run(prompt, tokens=tokens, sampler=sampler):
                show(step.text)
    finally:
        show("\n")


def _summary(session, clock_ghz):
    """Figures of the run so far."""
    kinds = session.by_kind()
    cycles = sum(row["cycles"] for row in kinds)
    peak = session.engines[0].config.macs_per_cycle(session.products.mode)
    seconds = sum(cost.seconds for cost in session.costs)
    speed = sum(cost.cycles for cost in session.costs) / seconds if seconds else None
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
        "simulated_cycles_per_second": speed,
        "kinds": kinds,
    }
    if decode:
        figures["cycles_per_token"] = sum(decode) / len(decode)
        figures["clock_ghz"] = clock_ghz
        figures["tokens_per_second_of_one_tile"] = clock_ghz * 1e9 / figures["cycles_per_token"]
    return figures


def _quality(session, whole_model):
    """The error against float32: of the run's logits, and of the mode on the shipped text; other modes."""
    say("comparing with float32, on this text and on the shipped one ...")
    closeness, quality = session.closeness(), session.quality()
    measured = {"perplexity": quality.perplexity, "perplexity_ratio": quality.perplexity_ratio,
                "same_token_rate": quality.same_token_rate, "logit_sqnr_db": quality.logit_sqnr_db}
    return {
        "same_token_rate": closeness.same_token_rate, "logit_sqnr_db": closeness.logit_sqnr_db,
        "shipped_text": {
            "tokens": quality.tokens, "float32_perplexity": quality.perplexity / quality.perplexity_ratio,
            "this_run": {session.products.mode: measured},
            "figures_json": _other_modes(session.products.mode) if whole_model else {},
        },
    }


def _other_modes(mode):
    """What figures.json has of the modes that this run did not use, for the whole default model."""
    from scripts.figures import collect

    committed = collect.load()
    names = ("perplexity_ratio", "same_token_rate", "logit_sqnr_db")
    found = {}
    for other in MODES:
        keys = {name: f"demo.{other}.{name}" for name in names}
        if other != mode and all(key in committed for key in keys.values()):
            found[other] = {name: committed[key] for name, key in keys.items()}
            if "demo.float32.perplexity" in committed:
                found[other]["perplexity"] = (committed["demo.float32.perplexity"]
                                              * found[other]["perplexity_ratio"])
    return found


def _wave_of_first(session, directory):
    """The first product once more, its first rows and columns, on the traced RTL of the tiny preset.

    A traced build of the full engine would take many minutes and write gigabytes. The bits are the same.
    """
    from golden.matmul import matmul
    from sw.engine.engine import SimulatedEngine
    from sw.engine.product import check, multiply

    config = preset("tiny").tile.matrix
    name, x, w = session.products.first
    x, w = x[:config.accumulator_rows], w[:4 * config.cols]
    path = directory / "first-product.fst"
    with SimulatedEngine(config, waves=True, log=say) as engine:
        product = multiply(engine, x, w, wave=str(path))
        check(product, matmul(x, w), test=f"first product {name}")
    return {"file": str(path), "product": name, "rows": x.shape[0], "columns": w.shape[0], "k": x.k,
            "preset": "tiny", "view": "rtl", "unit": f"{config.rows}x{config.cols}", "cycles": product.cycles}


def _save(directory, figures):
    """Write the report; the file appears whole or not at all."""
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
                 (f"tokens/s at {figures['clock_ghz']} GHz, one tile, matrix engine only",
                  round(figures["tokens_per_second_of_one_tile"]))]
    rows += [("same token as float32", f"{figures['same_token_rate']:.1%} of {figures['tokens']}"),
             ("logit SQNR against float32", f"{figures['logit_sqnr_db']:.1f} dB"),
             ("simulated cycles a second", round(figures["simulated_cycles_per_second"])),
             ("seconds to the first token", round(figures["seconds_to_the_first_token"], 1))]
    print_table("The run", ("what", "value"), rows)
    _print_quality(figures["shipped_text"], figures["layers"])
    print(f"report: {path}")
    if "wave" in figures:
        wave = figures["wave"]
        print(f"wave:   {wave['file']}")
        print(f"        The {figures['preset']} engine is not traced: this is {wave['product']} once more ("
              f"{wave['rows']} rows, {wave['columns']}\n        columns) on the RTL of one unit of "
              f"{wave['unit']} (preset {wave['preset']}), which gives the same bits.")


def _print_quality(shipped, layers):
    rows = [("float32", f"{shipped['float32_perplexity']:.1f}", "", "", "", "this run")]
    for source, label in (("this_run", "this run"), ("figures_json", "figures.json")):
        for mode, found in shipped[source].items():
            perplexity = f"{found['perplexity']:.1f}" if "perplexity" in found else ""
            rows.append((mode, perplexity, f"{found['perplexity_ratio']:.3f}",
                         f"{found['same_token_rate']:.1%}", f"{found['logit_sqnr_db']:.1f} dB", label))
    text = f"shipped text of {shipped['tokens']} tokens"
    print_table(f"{layers} layers against float32 on the {text}, by golden",
                ("mode", "perplexity", "over float32", "same token", "logit SQNR", "from"), rows)
