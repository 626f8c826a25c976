"""Payloads of the load-store unit: what is dispatched and issued, and its ports to the L1 and the devices."""

from amaranth.hdl import signed
from amaranth.lib import data

from ..address import ADDRESS_BITS
from ..l1.types import MSHR_BITS, LoadAnswer, LoadRequest, StoreRequest
from ..types import OP_BITS, Cause, DeviceRequest, DeviceResponse, age_bits
from .ring import index_bits

__all__ = [
    "MSHR_BITS", "LoadAnswer", "LoadRequest", "MmioRequest", "MmioResponse", "StoreRequest", "dispatch_slot",
    "fault_report", "issue", "issue_data", "load_result", "mark", "trace_access",
]


MmioRequest, MmioResponse = DeviceRequest, DeviceResponse


def dispatch_slot(config):
    """An instruction at dispatch; neither load nor store: the slot is not for this unit.

    ``op``: funct3. ``tag``: the physical register of the result, written if ``writes``.
    """
    return data.StructLayout({
        "load": 1, "store": 1, "age": age_bits(config), "op": OP_BITS, "tag": range(config.physical),
        "writes": 1, "pc": 64})


def issue(entries):
    """A load or a store's address, in X: base and offset of the instruction in entry ``index``."""
    return data.StructLayout({"valid": 1, "index": index_bits(entries), "a": 64, "immediate": signed(32)})


def issue_data(config):
    """A store's data, in X."""
    return data.StructLayout({"valid": 1, "index": index_bits(config.stores), "value": 64})


def load_result(config):
    """A load's value, in M."""
    return data.StructLayout({
        "valid": 1, "tag": range(config.physical), "writes": 1, "value": 64, "age": age_bits(config)})


def mark(config):
    """One instruction in flight."""
    return data.StructLayout({"valid": 1, "age": age_bits(config)})


def fault_report(config):
    """An exception of an instruction in flight, which completes in no other way."""
    return data.StructLayout({"valid": 1, "age": age_bits(config), "cause": Cause, "tval": 64})


def trace_access(config):
    """An access as a trace shows it: ``mask`` and ``data`` begin at ``address``, not at its doubleword."""
    return data.StructLayout({
        "valid": 1, "age": age_bits(config), "address": ADDRESS_BITS, "mask": 8, "data": 64})
