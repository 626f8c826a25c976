"""Runs a traffic pattern on the RTL of a slice with its device models, and measures at the pins."""

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from golden.hbm import Geometry, range_lines
from hw.hbm import port
from tb.hbm.backdoor import Devices
from tb.hbm.beats import pack, unpack
from tb.hbm.timed import timed_bench
from tb.hbm.trace import OPS, Bus, read_trace
from tb.simulator import Simulator

from .patterns import FAW_BYTES, PATTERNS

__all__ = ["Measurement", "Measured", "measure"]

NUMBER = {name: number for number, name in enumerate(OPS)}
BURST_BYTES, BURST_CK = 32, 2
READS, WRITES = ("RD", "RDA"), ("WR", "WRA")
#: Part of the bursts before and after the window that is measured: the start fills, the end drains.
BEFORE, AFTER = 0.3, 0.03


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Figures of one run. Bandwidths are of the pins, refreshes included, over ``window_ns``.

    ``share``: bursts over the time of the window; ``bulk_share``: of them those of bulk reads.
    ``faw_share``: bandwidth over the bound that tFAW sets if each 32 bytes need a row. ``row_hits``: column
    commands after the first to an opened row, over all. Refreshes are of single banks, in the window.
    Latencies are from the transfer of a demand read to that of its response. ``idle_extra_cycles``: pattern
    idle only, the most tile cycles over the device's own minimum, of ``idle_samples`` of ``demand_reads``;
    the others met a refresh.
    """

    pattern: str
    pseudo_channels: int
    window_ns: float
    share: float
    gb_s: float
    faw_share: float
    row_hits: float
    activates: int
    refreshes_served: int
    refreshes_due: int
    demand_reads: int
    latency_p50_ns: float | None = None
    latency_p99_ns: float | None = None
    latency_max_ns: float | None = None
    bulk_share: float = 0.0
    idle_extra_cycles: float | None = None
    idle_extra_by_case: dict | None = None
    idle_samples: int = 0

    def as_dict(self):
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measurement, and the commands behind it (tb.hbm.trace.RECORD)."""

    measurement: Measurement
    trace: np.ndarray
    ck_ns: float


def measure(config, pattern, *, microseconds=120.0, clock_ghz=1.6, seed=1, log=None, advance=None):
    """Build the slice, run a pattern for about the time given, and measure.

    Parameters
    ----------
    config : hw.config.HbmConfig
    pattern : str
        A key of PATTERNS.
    microseconds : float
        Time that the pattern would take at full bandwidth; above 20, so that refreshes come into balance.
    log : callable, optional
        Told what is being built.

    Returns
    -------
    Measured

    Raises
    ------
    ValueError
        Unknown pattern, or a time that is too short.
    tb.simulator.SimulationError
        A device found a rule broken, or answers stayed away.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern = {pattern!r}: must be one of {', '.join(PATTERNS)}")
    if not 20 <= microseconds <= 10_000:
        raise ValueError(f"microseconds = {microseconds!r}: must be from 20 to 10000")
    geometry = Geometry.of(config)
    capacity = microseconds * 1e-6 * config.bytes_per_second
    traffic = PATTERNS[pattern](np.random.default_rng(seed), geometry, capacity)
    bench = timed_bench(config, clock_ghz=clock_ghz, log=log)
    with Simulator(bench) as simulator, tempfile.TemporaryDirectory() as folder:
        devices = Devices(simulator)
        # Start-up takes its time once; it is not part of any pattern.
        simulator.run({"request": _beats(_first())}, {"response": 1, "taken": 1})
        devices.trace(Path(folder) / "trace")
        if traffic.alone:
            latency = _run_alone(simulator, traffic)
        else:
            latency = _run(simulator, geometry, traffic, seed)
        devices.trace(None)
        trace = read_trace(Path(folder) / "trace")
    return _figures(config, pattern, trace, latency, clock_ghz)


def _first():
    from tb.hbm.traffic import Requests
    return Requests(write=np.zeros(1, dtype=bool), tags=np.zeros(1, dtype=int), lines=np.zeros(1, dtype=int),
                    masks=np.zeros((1, 64), dtype=bool), data=np.zeros((1, 64), dtype=np.uint8))


def _beats(requests):
    return pack(port.Request, len(requests), write=requests.write, tag=requests.tags, line=requests.lines,
                mask=requests.masks, data=requests.data)


def _run(simulator, geometry, traffic, seed):
    """All at once; latencies of demand reads in tile cycles."""
    inputs, outputs = {}, {}
    requests, ranges = traffic.requests, traffic.ranges
    if requests is not None:
        inputs["request"] = _beats(requests)
        outputs |= {"response": len(requests), "taken": len(requests)}
    if ranges is not None:
        fields = {name: np.array([asked[key] for asked in ranges.asked])
                  for name, key in (("address", "address"), ("rows", "rows"), ("bytes", "size"),
                                    ("stride", "stride"))}
        inputs["range"] = pack(port.Range, len(ranges.asked), tag=np.array(ranges.tags), **fields)
        outputs["range_answer"] = len(ranges.asked)
        lines = np.zeros(geometry.pseudo_channels, dtype=int)
        for asked in ranges.asked:
            lines += [len(part) for part in range_lines(geometry, **asked)[1]]
        outputs |= {f"bulk__{c}": int(count) for c, count in enumerate(lines)}
    result = simulator.run(inputs, outputs, seed=seed, stalls=traffic.stalls or {})
    for name, beats in result.outputs.items():
        shape = {"response": port.Response, "range_answer": port.RangeAnswer}.get(name, port.BulkData)
        if name != "taken" and unpack(shape, beats)["status"].any():
            raise ValueError(f"{name} has answers that are not OK")
    return _latency(requests, result) if requests is not None else np.zeros(0)


def _latency(requests, result):
    """Tile cycles from transfer to transfer, of reads; a class is answered in order."""
    came, tags = result.output_cycles["response"], unpack(port.Response, result.outputs["response"])["tag"]
    latency = np.zeros(len(requests))
    for kind in range(4):
        mine = requests.tags >> 6 == kind
        latency[mine] = came[tags >> 6 == kind] - result.output_cycles["taken"][mine]
    return latency[~requests.write]


def _run_alone(simulator, traffic):
    beats, latency = _beats(traffic.requests), []
    for n in range(len(beats)):
        result = simulator.run({"request": beats[n:n + 1]}, {"response": 1, "taken": 1})
        latency.append(result.output_cycles["response"][0] - result.output_cycles["taken"][0])
    return np.array(latency)


def _figures(config, pattern, trace, latency, clock_ghz):
    ck_ns = 4 / config.gbit_s_pin
    commands = trace[trace["bus"] != Bus.MARK]
    is_read = np.isin(commands["op"], [NUMBER[name] for name in READS])
    is_column = is_read | np.isin(commands["op"], [NUMBER[name] for name in WRITES])
    times = np.sort(commands["ck"][is_column])
    if len(times) < 100:
        raise ValueError(f"the pattern {pattern} gave {len(times)} bursts; 100 are needed for a figure")
    begin, end = times[int(len(times) * BEFORE)], times[int(len(times) * (1 - AFTER)) - 1]
    inside = (commands["ck"] >= begin) & (commands["ck"] < end)
    channels, window = config.pseudo_channels, int(end - begin)
    bursts = int((inside & is_column).sum())
    share = bursts * BURST_CK / (window * channels)
    activates = int((inside & (commands["op"] == NUMBER["ACT"])).sum())
    banks = config.stack_ids * config.banks
    served = int((inside & (commands["op"] == NUMBER["REFPB"])).sum()
                 + banks * (inside & (commands["op"] == NUMBER["REFAB"])).sum())
    interval = int(config.timings.refi / ck_ns + 1e-9)
    extra = {}
    if pattern == "idle":
        extra = _idle(config, commands, latency, ck_ns, clock_ghz)
    if len(latency):
        nanoseconds = latency / clock_ghz
        extra |= {"latency_p50_ns": float(np.percentile(nanoseconds, 50)),
                  "latency_p99_ns": float(np.percentile(nanoseconds, 99)),
                  "latency_max_ns": float(nanoseconds.max())}
    if pattern != "idle":
        demand = 2 * len(latency) * (1 - BEFORE - AFTER) if pattern == "loaded" else 0
        extra["bulk_share"] = share * (1 - demand / bursts) if not pattern.startswith("mixed") else 0.0
    faw_ns = config.timings.faw
    measurement = Measurement(
        pattern=pattern, pseudo_channels=channels, window_ns=window * ck_ns, share=share,
        gb_s=share * config.bytes_per_second / 1e9,
        faw_share=bursts * BURST_BYTES / channels / (window * ck_ns) / (FAW_BYTES / faw_ns),
        row_hits=1 - activates / bursts, activates=activates, refreshes_served=served,
        refreshes_due=channels * window * banks // interval, demand_reads=len(latency), **extra)
    return Measured(measurement=measurement, trace=trace, ck_ns=ck_ns)


def _idle(config, commands, latency, ck_ns, clock_ghz):
    """Latencies of lone reads less what the device itself takes for them, by what they found.

    A line is two bursts, so the minimum holds a tCCD_L. Reads which a refresh of their bank, or the spacing
    from another bank's refresh, kept waiting are left out.
    """
    t = config.timings
    recovery, spacing = round(t.rfc_bank / ck_ns), -(-t.rref // ck_ns)
    order = np.argsort(commands["ck"], kind="stable")
    commands = commands[order]
    reads = np.flatnonzero(np.isin(commands["op"], [NUMBER[name] for name in READS]))
    if len(reads) != 2 * len(latency):
        raise ValueError(f"{len(latency)} lone reads gave {len(reads)} bursts, expected are two each")
    by_case, before = {"hit": [], "closed": [], "conflict": []}, -1
    for n, first in enumerate(reads[::2]):
        read = commands[first]
        between = commands[before + 1:first]
        before = reads[2 * n + 1]
        own = between[(between["device"] == read["device"]) & (between["stack"] == read["stack"])
                      & (between["bank"] == read["bank"])]
        until = commands[:first]
        refreshes = until[(until["device"] == read["device"]) & (until["op"] == NUMBER["REFPB"])]
        activate = own[own["op"] == NUMBER["ACT"]]
        ns = t.cl + (t.ccd_l_ck + BURST_CK) * ck_ns
        case = "hit"
        if len(activate):
            at = activate["ck"][-1]
            precharge = own[own["op"] == NUMBER["PRE"]]
            case = "closed"
            ns += t.rcd_read
            if len(precharge) and at - precharge["ck"][-1] <= t.rp / ck_ns + 6:
                case = "conflict"
                ns += t.rp
            mine = refreshes[(refreshes["stack"] == read["stack"]) & (refreshes["bank"] == read["bank"])]
            if (len(mine) and at - mine["ck"][-1] <= recovery + 4) or \
                    ((refreshes["ck"] < at) & (at - refreshes["ck"] <= spacing + 4)).any():
                continue
        by_case[case].append(latency[n] - ns * clock_ghz)
    worst = {case: float(max(values)) for case, values in by_case.items() if values}
    if not worst:
        raise ValueError("no lone read was free of refreshes")
    return {"idle_extra_cycles": max(worst.values()), "idle_extra_by_case": worst,
            "idle_samples": sum(map(len, by_case.values()))}
