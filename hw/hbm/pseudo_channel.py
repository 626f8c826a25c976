"""The controller of one pseudo-channel: queues, scheduler, refresh, write path and return path, wired."""

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .address_map import Location
from .command import DfiSignature
from .port import BulkLine, ChannelData, Demand, Reply, ScrubLine

__all__ = ["Counters", "PseudoChannel"]


class Counters(data.Struct):
    """Counters since reset, all saturating.

    ``reads``, ``writes`` : column commands (32 bytes each); ``activates``; ``row_hits`` : column commands
    after the first to an opened row; ``refreshes_due``, ``refreshes_served`` : in refreshes of a bank (an
    all-bank refresh serves one of each); ``corrected``, ``uncorrected`` : words of 64 bits read with an
    error; ``first_valid``, ``first_address`` : line of the first error of either kind; ``scrubbed`` : lines
    that a scrub wrote back.
    """

    reads: 32
    writes: 32
    activates: 32
    row_hits: 32
    refreshes_due: 32
    refreshes_served: 32
    corrected: 32
    uncorrected: 32
    first_valid: 1
    first_address: Location
    scrubbed: 32


class PseudoChannel(wiring.Component):
    """Controller of one pseudo-channel.

    Parameters
    ----------
    config : HbmConfig

    Members
    -------
    slot : In(1): this tile cycle is a slot (``SlotRate``); requests are taken in such cycles only
    temperature : In(2): refresh interval is refi (0), refi / 2 (1), refi / 4 (2)
    all_bank : In(1): refresh all banks at once in place of one by one
    demand : In(stream of Demand): a write is ordered when it is accepted
    bulk : In(stream of BulkLine)
    scrub : In(stream of ScrubLine): lines to read, and to write back if an error was corrected
    reply : Out(stream of Reply): demand reads, in any order
    data : Out(stream of ChannelData): bulk reads, in order
    dfi : Out(DfiSignature)
    counters : Out(Counters)
    idle : Out(1): start-up is over and nothing is queued or under way
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "slot": In(1), "temperature": In(2), "all_bank": In(1),
            "demand": In(stream.Signature(Demand)), "bulk": In(stream.Signature(BulkLine)),
            "scrub": In(stream.Signature(ScrubLine)),
            "reply": Out(stream.Signature(Reply)), "data": Out(stream.Signature(ChannelData)),
            "dfi": Out(DfiSignature()), "counters": Out(Counters), "idle": Out(1),
        })

    module_name = "hbm_pseudo_channel"

    def elaborate(self, platform):
        return Module()
