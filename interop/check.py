"""Checks one build of nibble against software that is not nibble's.

check.py BUILD PLAIN LABEL: BUILD is a quantized folder, PLAIN its expansion to float32. Hugging Face's safetensors must
read every file and, given its tensors, write the same bytes. Every quantized matrix is decoded here with numpy from the
published formula of its format, and must equal PLAIN's in all 32 bits; every other tensor must have survived.
"""
import glob
import json
import os
import sys

import numpy as np
import safetensors

INTS = {"I32": np.int32, "I64": np.int64, "U8": np.uint8, "I8": np.int8, "F32": np.float32}
AWQ_SHIFT = [0, 16, 4, 20, 8, 24, 12, 28]  # of column j in a word


def load(folder):
    """All tensors of a folder as {name: array}; bf16 and f16 are widened to float32, exactly."""
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        raw = open(path, "rb").read()
        entries = safetensors.deserialize(raw)
        assert rewritten(entries) == raw, f"{path}: not the bytes that safetensors writes for these tensors"
        for name, t in entries:
            assert name not in tensors, f"{name}: in two shards"
            tensors[name] = array(t)
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        listed = json.load(open(index))["weight_map"]
        assert set(listed) == set(tensors), "the index lists other tensors than the shards hold"
    return tensors


def rewritten(entries):
    """The file that safetensors itself writes for these tensors."""
    wire = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "I32": "int32", "I64": "int64", "U8": "uint8", "I8": "int8"}
    buffers = {name: np.frombuffer(bytes(t["data"]), np.uint8) for name, t in entries}
    specs = {name: safetensors.TensorSpec(dtype=wire[t["dtype"]], shape=t["shape"], data_ptr=buffers[name].ctypes.data,
                                          data_len=buffers[name].size) for name, t in entries}
    return safetensors.serialize(specs, {"format": "pt"})


def array(t):
    data, shape = bytes(t["data"]), t["shape"]
    if t["dtype"] == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    if t["dtype"] == "F16":
        return np.frombuffer(data, np.float16).astype(np.float32).reshape(shape)
    return np.frombuffer(data, INTS[t["dtype"]]).reshape(shape)


def unpack(words, bits, axis):
    """Codes packed low bits first along an axis of int32 words."""
    w = words.view(np.uint32)
    parts = [(w >> np.uint32(bits * i)) & np.uint32(2**bits - 1) for i in range(32 // bits)]
    stacked = np.stack(parts, axis=axis + 1)
    shape = list(w.shape)
    shape[axis] *= 32 // bits
    return stacked.reshape(shape).astype(np.int32)


def unpack_awq(words):
    w = words.view(np.uint32)
    parts = [(w >> np.uint32(s)) & np.uint32(15) for s in AWQ_SHIFT]
    return np.stack(parts, axis=2).reshape(w.shape[0], -1).astype(np.int32)


def gptq(t, name, q):
    bits = q["bits"]
    codes = unpack(t[name + ".qweight"], bits, 0)  # [K, N]
    zeros = unpack(t[name + ".qzeros"], bits, 1)  # [G, N]
    if q["checkpoint_format"] == "gptq":
        zeros = (zeros + 1) & (2**bits - 1)
    assert (zeros == 2 ** (bits - 1)).all(), f"{name}: symmetric, but a zero point is not the middle"
    group = t[name + ".g_idx"]
    scales = t[name + ".scales"]
    assert scales.shape[0] == codes.shape[0] // q["group_size"] if q["group_size"] > 0 else scales.shape[0] == 1
    return (scales[group] * (codes - zeros[group]).astype(np.float32)).T


def awq(t, name, q):
    codes, zeros = unpack_awq(t[name + ".qweight"]), unpack_awq(t[name + ".qzeros"])
    scales = t[name + ".scales"]
    group = np.arange(codes.shape[0]) // (codes.shape[0] // scales.shape[0])
    if not q["zero_point"]:
        assert (zeros == 8).all(), f"{name}: zero_point false, but a zero point is not 8"
    return (scales[group] * (codes - zeros[group]).astype(np.float32)).T


def compressed(t, name, q):
    scheme = next(iter(q["config_groups"].values()))["weights"]
    scales = t[name + ".weight_scale"]
    if q["format"] == "int-quantized":
        return scales * t[name + ".weight"].astype(np.float32)
    bits = scheme["num_bits"]
    rows, cols = t[name + ".weight_shape"]
    codes = unpack(t[name + ".weight_packed"], bits, 1)[:rows, :cols]
    group = np.arange(cols) // (cols // scales.shape[1])
    zeros = 2 ** (bits - 1)
    if not scheme["symmetric"]:
        zeros = unpack(t[name + ".weight_zero_point"], bits, 0)[:rows][:, group]
    return scales[:, group] * (codes - zeros).astype(np.float32)


def cpu_int4(t, name, q):
    packed = t[name + ".weight_packed"]
    codes = np.stack([packed & 15, packed >> 4], axis=2).reshape(packed.shape[0], -1).astype(np.int32)
    scales, zeros = t[name + ".weight_scale"], t[name + ".weight_zero"]
    group = np.arange(codes.shape[1]) // q["group_size"]
    return scales[:, group] * (codes - 8).astype(np.float32) + zeros[:, group]


FORMATS = {"gptq": (gptq, ".qweight"), "awq": (awq, ".qweight"), "compressed-tensors": (compressed, ".weight_scale"),
           "cpu_int4": (cpu_int4, ".weight_packed")}


def main(build, plain, label):
    config = json.load(open(os.path.join(build, "config.json")))
    q = config["quantization_config"]
    decode, mark = FORMATS[q["quant_method"]]
    have, want = load(build), load(plain)
    modules = sorted(n[: -len(mark)] for n in have if n.endswith(mark))
    assert len(modules) >= 28, f"only {len(modules)} quantized matrices"
    owned = set()
    for name in modules:
        owned |= {n for n in have if n.rsplit(".", 1)[0] == name and n != name + ".bias"}
        got, expected = decode(have, name, q).astype(np.float32), want[name + ".weight"]
        assert got.shape == expected.shape, f"{name}: shape {got.shape}, dequantize wrote {expected.shape}"
        same = got.view(np.uint32) == np.ascontiguousarray(expected).view(np.uint32)
        same |= (got == 0) & (expected == 0)  # the sign of zero says nothing
        assert same.all(), f"{name}: {np.count_nonzero(~same)} of {same.size} weights differ"
    for name in set(have) - owned:
        assert np.array_equal(have[name], want[name]), f"{name}: changed"
    assert set(want) == (set(have) - owned) | {n + ".weight" for n in modules}, "tensors lost or added"
    assert "quantization_config" not in json.load(open(os.path.join(plain, "config.json")))
    print(f"ok  {len(modules):3d} matrices  {label}")


main(*sys.argv[1:])
