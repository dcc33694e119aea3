"""Checks GGUF files of nibble against the gguf package for Python.

gguf_check.py sample PART...: the parts of a model that ggufsample wrote. The package must open them and find the metadata
that ggufsample states; it must decode TYPE.blocks to TYPE.values in all 32 bits, but for the payload of NaNs; and where it
quantizes at all, "weights" must give it the bytes of TYPE.encoded.

gguf_check.py write DIR: lets the package write a model, in both byte orders and in parts, for ggufsample to copy.

gguf_check.py same FILE FILE...: all files must have the same bytes.

gguf_check.py model FILE DIR: the package must open the model FILE and decode its matrices to the values that dequantize wrote to DIR,
in all 32 bits, once the rows of q and k are in their old order.
"""
import sys

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFEndian, GGUFReader, GGUFValueType as V, GGUFWriter
from gguf.quants import dequantize, quantize
from safetensors.numpy import load_file

METADATA = {"general.architecture": "test", "general.alignment": 64, "k.uint8": 200, "k.int8": -100, "k.uint16": 60000,
            "k.int16": -30000, "k.uint32": 4000000000, "k.int32": -2000000000, "k.uint64": 2**63 + 1, "k.int64": -(2**62),
            "k.float32": 0.15625, "k.float64": -1e300, "k.bool": True, "k.string": "h\u00e9llo", "a.uint16": [1, 65535],
            "a.string": ["a", "", "\u4e16"], "a.bool": [True, False], "a.float32": [0.5, -2.0]}
DECODED = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
           "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"}
PLAIN = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}


def sample(paths):
    readers = [GGUFReader(p) for p in paths]
    found = {k: f.contents() for k, f in readers[0].fields.items() if not k.startswith(("GGUF.", "split."))}
    assert found == METADATA, f"metadata {found}"
    for i, r in enumerate(readers):
        assert (r.fields["split.no"].contents(), r.fields["split.count"].contents()) == (i, len(readers))
    tensors = {t.name: t for r in readers for t in r.tensors}
    assert readers[0].fields["split.tensors.count"].contents() == len(tensors) == sum(len(r.tensors) for r in readers)
    weights = tensors["weights"].data
    decoded, plain = set(), set()
    for name, t in tensors.items():
        kind, _, what = name.partition(".")
        if what == "blocks":
            with np.errstate(all="ignore"):
                try:
                    got = dequantize(t.data, t.tensor_type)
                except NotImplementedError:
                    continue
            want = tensors[kind + ".values"].data
            same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
            assert got.shape == want.shape and same.all(), f"{kind}: {np.count_nonzero(~same)} of {same.size} weights differ"
            decoded.add(kind)
        if what == "encoded" and kind in PLAIN:
            got = quantize(weights, t.tensor_type)
            assert got.tobytes() == t.data.tobytes(), f"{kind}: encoded otherwise"
            plain.add(kind)
        elif what == "encoded" and kind in DECODED:
            error = ((dequantize(t.data, t.tensor_type) - weights) ** 2).sum() / (weights**2).sum()
            assert error < 0.09, f"{kind}: relative squared error {error}"
    assert decoded == DECODED and plain == PLAIN, f"decoded {decoded}, encoded {plain}"
    print(f"ok  {len(decoded)} types decode, {len(plain)} encode as gguf does")


def write(folder):
    for name, endian, split in [("little", GGUFEndian.LITTLE, 0), ("big", GGUFEndian.BIG, 0), ("parts", GGUFEndian.LITTLE, 2)]:
        w = GGUFWriter(f"{folder}/{name}.gguf", "test", endianess=endian, split_max_tensors=split)
        w.add_uint32("k.uint32", 7)
        w.add_array("a.string", ["x", "y"])
        w.add_key_value("a.nested", [[1, 2], [3]], V.ARRAY, sub_type=V.ARRAY)
        rng = np.random.default_rng(6)
        for i, kind in enumerate([T.Q8_0, T.Q4_0]):
            b = quantize(rng.standard_normal((4, 96)).astype(np.float32), kind)
            if endian == GGUFEndian.BIG:
                width = b.shape[-1] // 3
                b.reshape(-1, width)[:, :2] = b.reshape(-1, width)[:, 1::-1]
            w.add_tensor(f"q{i}", b, raw_dtype=kind)
        w.add_tensor("f16", rng.standard_normal((2, 3, 5)).astype(np.float16))
        w.add_tensor("f64", rng.standard_normal(9))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()


def same(paths):
    first, *others = [open(p, "rb").read() for p in paths]
    assert all(b == first for b in others), f"{paths} differ"
    print("ok  files of gguf, copied, are the same bytes in either byte order and from parts")


def model(path, folder):
    plain = load_file(f"{folder}/model.safetensors")
    r = GGUFReader(path)
    heads = {"attn_q": r.fields["llama.attention.head_count"].contents(), "attn_k": r.fields["llama.attention.head_count_kv"].contents()}
    parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm"}
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}
    kinds = set()
    for t in r.tensors:
        name, got = names.get(t.name), dequantize(t.data, t.tensor_type)
        if name is None:
            _, layer, part, _ = t.name.split(".")
            name = f"model.layers.{layer}.{parts[part]}.weight"
            if part in heads:
                n, k = got.shape
                got = got.reshape(heads[part], n // heads[part] // 2, 2, k).swapaxes(1, 2).reshape(n, k)
        want = plain.pop(name)
        assert got.shape == want.shape and (got.view(np.uint32) == want.view(np.uint32)).all(), f"{path}: {t.name} differs"
        kinds.add(t.tensor_type.name)
    assert not plain, f"{path}: {sorted(plain)} missing"
    print(f"ok  {path}: {len(r.tensors)} tensors of {', '.join(sorted(kinds))}")


{"sample": sample, "model": lambda a: model(*a), "write": lambda a: write(*a), "same": same}[sys.argv[1]](sys.argv[2:])
