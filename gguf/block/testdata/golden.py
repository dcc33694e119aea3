"""Writes decode/*.bin and encode/*.bin with the gguf package for Python (README.md has the versions).

decode/TYPE.bin: blocks, then the float32 they decode to. encode/TYPE.bin: float32, then the blocks they are encoded to.
"""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

# Offsets of the float16 fields of a block.
F16_FIELDS = {"F32": [], "F16": [0], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
              "IQ4_NL": [0], "MXFP4": [], "NVFP4": [], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
              "Q6_K": [208], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}
# 1/64, -0.37, least subnormal, largest subnormal, greatest, infinities, NaN, zeros
F16_VALUES = [0x2400, 0xB5EC, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x0000, 0x8000]


def blocks(name, rng):
    size, width = GGML_QUANT_SIZES[T[name]]
    n = {1: 64, 32: 24, 64: 12, 256: 6}[size]
    b = rng.integers(0, 256, (n, width), dtype=np.uint8)
    if size > 1:
        b[1], b[2] = 0, 255
    for k, at in enumerate(F16_FIELDS[name]):
        for i in range(n):
            v = F16_VALUES[(i + 3 * k) % len(F16_VALUES)] if size < 256 else [0x2400, 0xB5EC, 0x0001, 0x7BFF, 0x7C00, 0x7E00][(i + k) % 6]
            if size > 1 or i < len(F16_VALUES):
                b[i, at:at + 2] = np.frombuffer(np.uint16(v).tobytes(), np.uint8)
    if name == "MXFP4":
        b[:6, 0] = [0, 1, 2, 127, 254, 255]
    if name == "NVFP4":
        b[3, :4] = [0x7F, 0x7E, 0xFF, 0x01]
    return b


def floats(rng):
    w = (rng.standard_normal((24, 32)) * 0.02).astype(np.float32)
    w[0] = 0
    w[1] = -0.0
    w[2] = 0.75
    w[3] = -0.75
    w[4] = np.arange(32) / 8 - 2  # many ties
    w[5] = np.arange(32)
    w[6] = -np.arange(32)
    w[7] = np.where(np.arange(32) == 9, 1000, w[7])  # an outlier
    w[8] *= 1e-6  # scales that are subnormal in float16
    w[9] *= 1e-9  # scales that are zero in float16
    w[10] = abs(w[10])
    w[11] = -abs(w[11])
    w[12, 3], w[12, 20] = 0.125, -0.125  # the first of two extremes counts
    w[13, 3], w[13, 20] = -0.125, 0.125
    w[14] = 127 * np.sign(w[14]) * rng.integers(0, 255, 32) / 254  # halves for Q8_0
    w[15] *= 1e6
    return w


for name in F16_FIELDS:
    rng = np.random.default_rng(T[name])
    b = blocks(name, rng)
    with np.errstate(all="ignore"):
        y = dequantize(b, T[name])
    open(f"decode/{name}.bin", "wb").write(b.tobytes() + y.astype("<f4").tobytes())
for name in ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]:
    w = floats(np.random.default_rng(100 + T[name]))
    with np.errstate(all="ignore"):
        b = quantize(w, T[name])
    open(f"encode/{name}.bin", "wb").write(w.astype("<f4").tobytes() + b.tobytes())
