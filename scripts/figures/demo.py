"""Figures of the main job: a whole language model on the RTL of the full engine, every product compared."""

import os

KEYS = ("demo.mismatches", "demo.products", "demo.cycles_per_token", "demo.utilisation",
        "sim.pe_updates_per_s.full")

PROMPT = "The capital of France is"
MODE = "mxfp8_mxfp8"


def measure(*, quick: bool) -> dict[str, object]:
    """Two tokens by the RTL for products and mismatches; cycles of one engine from the fast view.

    Several simulations of the RTL share the columns of each product, which costs a few cycles more than one
    engine takes; the fast view, equal cycle by cycle, gives those of one engine.
    """
    if quick:
        return {}  # minutes of simulation, and two builds of the full engine
    rtl = _run("rtl", os.cpu_count() or 1)
    one = _run("fast", 1)
    last = one.costs[-1]
    config = one.engines[0].config
    peak = config.macs_per_cycle(MODE)
    macs = sum(tally.macs for tally in one.products.tallies.values())
    return {
        "demo.mismatches": sum(tally.mismatches for session in (rtl, one)
                               for tally in session.products.tallies.values()),
        "demo.products": rtl.costs[0].products,
        "demo.cycles_per_token": last.cycles,
        "demo.utilisation": round(macs / (one.cycles * peak), 4),
        # A quad does the work of four plain MXFP4 PEs. All simulators together.
        "sim.pe_updates_per_s.full": round(4 * config.quads * rtl.cycles
                                           / sum(cost.seconds for cost in rtl.costs)),
    }


def _run(view, simulators):
    import contextlib

    from hw.config import preset
    from sw.engine.engine import SimulatedEngine
    from sw.lm.engine_products import EngineProducts
    from sw.lm.generate import Sampler
    from sw.lm.parameters import Parameters
    from sw.lm.products import QuantisedWeights, formats_of
    from sw.lm.session import Session
    from sw.lm.weights import find_weights

    parameters = Parameters(find_weights())
    config = preset("full").tile.matrix
    with contextlib.ExitStack() as stack:
        engines = [SimulatedEngine(config, view=view)]
        engines += [SimulatedEngine(config, view=view, bench=engines[0].bench) for _ in range(1, simulators)]
        for engine in engines:
            stack.enter_context(engine)
        products = EngineProducts(engines, QuantisedWeights(parameters, formats_of(MODE)[1]), MODE)
        session = Session(parameters, engines, products)
        for _ in session.run(PROMPT, tokens=2, sampler=Sampler()):
            pass
    return session
