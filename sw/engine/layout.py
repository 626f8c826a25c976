"""Operands as streams of beats, in the order in which the engine takes them.

A pass is one set of stationary weights. Passes go over supersteps (along N), then K in steps of the array's
rows, then subtiles (which columns of each quad); see ``hw/matrix/passes.py``. A weight beat holds, for each
row group, 32 code bytes, and after them 2 scale bytes a row group: of one MXFP8 column, or of two MXFP4
columns. Padded columns and rows are never used; tests fill them with ``poison``.
"""

import math

import numpy as np

from golden.formats import Format, MXTensor

from .job import LANES, supersteps

__all__ = ["weight_beats", "activation_rows", "activation_beats", "weight_beat_bytes", "PAD"]

PAD = 4  # beats are padded to whole 32-bit words


def _padded(size):
    return math.ceil(size / PAD) * PAD


def weight_beat_bytes(config):
    """Bytes of a weight beat, padding included."""
    return _padded(34 * config.row_groups)


def _blocks(tensor, blocks, poison):
    """Packed codes [rows, blocks, 16 or 32] and scales [rows, blocks], K padded to whole ``blocks``."""
    rows = tensor.shape[0]
    pad = blocks * 32 - tensor.k
    fill = np.uint8(poison if tensor.format is Format.MXFP8 else poison & 15)
    codes = np.pad(tensor.codes, ((0, 0), (0, pad)), constant_values=fill)
    scales = np.pad(tensor.scales, ((0, 0), (0, blocks - tensor.scales.shape[1])), constant_values=poison)
    packed = MXTensor(format=tensor.format, codes=codes, scales=scales).pack()
    return packed.reshape(rows, blocks, -1), scales


def weight_beats(job, unit, config, poison=0):
    """Weight beats of a placed job for one unit of its run: uint8 [beats, weight_beat_bytes]."""
    groups = config.row_groups
    k_steps = math.ceil(job.k / config.rows)
    lanes = LANES[job.mode]
    parts = []
    if k_steps and job.m:
        codes, scales = _blocks(job.w, k_steps * groups, poison)
        for step in supersteps(job, unit):
            if step.columns:
                parts.append(_superstep(codes, scales, step, k_steps, groups, lanes, config, poison))
    return np.concatenate(parts) if parts else np.zeros((0, weight_beat_bytes(config)), np.uint8)


def _superstep(codes, scales, step, k_steps, groups, lanes, config, poison):
    end = step.start + step.columns
    pad = step.quads * 4 - step.columns
    codes = np.pad(codes[step.start:end], ((0, pad), (0, 0), (0, 0)), constant_values=poison)
    scales = np.pad(scales[step.start:end], ((0, pad), (0, 0)), constant_values=poison)
    size = codes.shape[2]
    # Axes: quad, subtile or half of a quad, column in the beat, step of k, row group, bytes.
    per_beat = min(lanes, 2)
    codes = codes.reshape(step.quads, 4 // per_beat, per_beat, k_steps, groups, size)
    scales = scales.reshape(step.quads, 4 // per_beat, per_beat, k_steps, groups)
    if lanes == 4:  # both halves of a quad in turn
        order, kept = (3, 0, 1, 4, 2), slice(None)
    else:  # one pass a subtile, over all quads
        order, kept = (3, 1, 0, 4, 2), slice(step.subtiles)
    codes = codes.transpose(*order, 5)
    scales = scales.transpose(*order)
    if lanes != 4:
        codes, scales = codes[:, kept], scales[:, kept]
    beats = codes.shape[0] * codes.shape[1] * codes.shape[2]
    out = np.zeros((beats, weight_beat_bytes(config)), np.uint8)
    out[:, :32 * groups] = codes.reshape(beats, -1)
    beat_scales = out[:, 32 * groups:34 * groups].reshape(beats, groups, 2)
    beat_scales[:, :, :per_beat] = scales.reshape(beats, groups, -1)
    return out


def activation_rows(tensor, config, poison=0):
    """Rows of X by step of k: uint8 [k steps, M, 33 * row_groups], codes then scales."""
    groups = config.row_groups
    k_steps = math.ceil(tensor.k / config.rows)
    m = tensor.shape[0]
    out = np.zeros((k_steps, m, 33 * groups), np.uint8)
    if k_steps and m:
        codes, scales = _blocks(tensor, k_steps * groups, poison)
        codes = codes.reshape(m, k_steps, groups, -1).transpose(1, 0, 2, 3)
        out[:, :, :32 * groups].reshape(k_steps, m, groups, 32)[..., :codes.shape[3]] = codes
        out[:, :, 32 * groups:] = scales.reshape(m, k_steps, groups).transpose(1, 0, 2)
    return out


def activation_beats(job, config, poison=0):
    """Beats of the activation bus for a placed job: uint8 [beats, padded bytes]."""
    rows = activation_rows(job.x, config, poison)
    k_steps, m, size = rows.shape
    first, count = job.units
    members = sum(1 << (first + u) for u in range(count) if u * job.width < job.n)
    mask = np.frombuffer(members.to_bytes(math.ceil(config.units / 8), "little"), np.uint8)
    beat = np.zeros((k_steps, m, _padded(size + len(mask))), np.uint8)
    beat[:, :, :size] = rows
    beat[:, :, size:size + len(mask)] = mask
    steps = supersteps(job, 0)
    parts = [np.repeat(beat[:, None], step.subtiles, axis=1).reshape(-1, beat.shape[2]) for step in steps]
    return np.concatenate(parts) if parts else np.zeros((0, beat.shape[2]), np.uint8)
