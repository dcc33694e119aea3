"""Runs an export in ONNX Runtime the way a host would, and compares the logits with those that export's own simulation
wrote to a trace: prompts in pieces, then tokens one by one, the caches fed back. usage: npu.py FOLDER TRACE"""

import glob
import json
import math
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from safetensors.numpy import load_file

folder, trace = sys.argv[1], load_file(sys.argv[2])
config = json.load(open(os.path.join(folder, "config.json")))
report = json.load(open(os.path.join(folder, "export_report.json")))
config = config.get("text_config", config)
tokens, prompt = trace["tokens"], int(trace["prompt"][0])
context, prefill, hidden = report["context"], report["prefill_tokens"], report["mask_hidden"]

# The simulation has the order of ONNX Runtime's sums on processors with AVX-512, and is equal to the last bit there.
equal = "avx512f" in open("/proc/cpuinfo").read()

for path in sorted(glob.glob(os.path.join(folder, "*.onnx"))):
    onnx.checker.check_model(path, full_check=True)


def session(path):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 3
    o.intra_op_num_threads = 1  # several threads cut products into other parts, whose sums have another order
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def parts(name, suffix=""):
    whole = os.path.join(folder, name + suffix + ".onnx")
    if os.path.exists(whole):
        return [session(whole)]
    n = len(glob.glob(os.path.join(folder, f"{name}_*_of_*{suffix}.onnx")))
    n = n // 2 if suffix == "" and glob.glob(os.path.join(folder, "*_of_*_float.onnx")) else n
    return [session(os.path.join(folder, f"{name}_{i + 1}_of_{n}{suffix}.onnx")) for i in range(n)]


def slots(base, past):
    """The position in every place of a cache when base tokens came before; -1: none."""
    if base <= past:
        return [p if p < base else -1 for p in range(past)]
    return [base - 1 - (base - 1 - p) % past for p in range(past)]


class Host:
    """What a host does: embedding, angles, masks, caches."""

    def __init__(self, coded):
        self.cache, self.coded = {}, coded
        path = os.path.join(folder, "embedding.onnx")
        self.embed = session(path) if os.path.exists(path) else None
        self.angles = report["ropes"]

    def feed(self, want, s, base, ids):
        feeds = {}
        for i in want:
            name, shape = i.name, i.shape
            if name == "input_embeds":
                feeds[name] = self.embed.run(None, {"input_ids": ids[None].astype(np.int32)})[0]
            elif name == "input_ids":
                feeds[name] = ids[None].astype(np.int32)
            elif name.startswith("attention_mask"):
                window = int(name.rpartition("_w")[2]) if "_w" in name else 0
                past = shape[3] - s
                at = np.array(slots(base, past) + list(range(base, base + s)))
                query = np.arange(base, base + s)[:, None]
                seen = (at >= 0) & (at <= query)
                if window:
                    seen &= query - at < window
                feeds[name] = np.where(seen, 0, hidden).astype(np.float32)[None, None]
            elif name.startswith("position_ids"):
                rope = self.angles[int(name[17:] or 0)]
                angle = np.arange(base, base + s)[:, None] * np.array(rope["inv_freq"], np.float32).astype(np.float64)
                f = np.cos if "cos" in name else np.sin
                feeds[name] = (f(angle) * rope["factor"]).astype(np.float32)[None, None]
            else:  # past_key_3_in
                key = name[:-3]
                past = shape[3] if "key" in name else shape[2]
                dtype = np.float32 if not self.coded else {"tensor(uint8)": np.uint8, "tensor(int16)": np.int16}[i.type]
                x = np.full(shape, 128 if dtype == np.uint8 else 0, dtype)
                for place, pos in enumerate(slots(base, past)):
                    if pos >= 0 and "key" in name:
                        x[..., place] = self.cache[key][pos]
                    elif pos >= 0:
                        x[:, :, place] = self.cache[key][pos]
                feeds[name] = x
        return feeds

    def run(self, sessions, s, base, ids):
        carried = {}
        for x in sessions:
            want = [i for i in x.get_inputs() if i.name not in carried]
            feeds = self.feed(want, s, base, ids)
            feeds.update({i.name: carried[i.name] for i in x.get_inputs() if i.name in carried})
            carried.update(zip([o.name for o in x.get_outputs()], x.run(None, feeds)))
        for name, x in carried.items():
            if name.startswith("past_"):
                column = (lambda t: x[..., t]) if "key" in name else (lambda t: x[:, :, t])
                self.cache.setdefault(name[:-4], []).extend(column(t) for t in range(s))
        return carried["logits"][0]


def chain(suffix, coded):
    host, logits = Host(coded), []
    many, one = parts("prefill", suffix), parts("decode", suffix)
    for base in range(0, prompt, prefill):
        logits.append(host.run(many, prefill, base, tokens[base : base + prefill]))
    for base in range(prompt, len(tokens)):
        logits.append(host.run(one, 1, base, tokens[base : base + 1]))
    return np.concatenate(logits)


def sqnr(x, y):
    noise = np.square(x.astype(np.float64) - y).sum()
    return 200 if noise == 0 else 10 * math.log10(np.square(x.astype(np.float64)).sum() / noise)


def node_by_node():
    """Every node of the prompt's graph computes from the codes that the simulation has for its inputs: how many steps
    its own codes are away from the simulation's, at most, and how many of them are."""
    model = onnx.load(os.path.join(folder, "prefill.onnx"), load_external_data=False)
    graph = model.graph
    kinds = {i.name: i.data_type for i in graph.initializer}
    shapes = {v.name: v.type.tensor_type for v in onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.value_info}
    shapes.update({v.name: v.type.tensor_type for v in list(graph.input) + list(graph.output)})
    del graph.output[:]
    given = {}
    for n in graph.node:
        if n.op_type != "QuantizeLinear":
            continue
        name = n.output[0]
        dims = [d.dim_value for d in shapes[name].shape.dim]
        given[name] = trace["tensor:" + name].reshape(dims).astype(onnx.helper.tensor_dtype_to_np_dtype(kinds[n.input[2]]))
        n.output[0] = name + ":made"
        graph.input.append(onnx.helper.make_tensor_value_info(name, kinds[n.input[2]], dims))
        graph.output.append(onnx.helper.make_tensor_value_info(name + ":made", kinds[n.input[2]], dims))
    path = os.path.join(folder, "nodes.onnx")
    onnx.save(model, path)
    s = session(path)
    os.remove(path)
    host, own = Host(True), [i for i in s.get_inputs() if i.name not in given]
    feeds = host.feed(own, prefill, 0, tokens[:prefill])
    made = s.run(None, feeds | given)
    far, away, count = 0, 0, 0
    for o, x in zip(s.get_outputs(), made):
        d = np.abs(x.astype(np.int64) - given[o.name[:-5]])
        far, away, count = max(far, d.max()), away + (d > 0).sum(), count + d.size
    print(f"{folder}: {len(made)} tensors node by node: at most {far} steps from the simulation, {away / count:.1e} of {count} codes differ")
    if far > (0 if equal else 1):
        sys.exit(f"{folder}: the simulation computes something else")


if os.path.exists(os.path.join(folder, "prefill.onnx")):
    node_by_node()
got = chain("", True)
apart, lost, simulated = sqnr(trace["codes"], got), sqnr(trace["float"], got), sqnr(trace["float"], trace["codes"])
print(f"{folder}: {len(tokens)} tokens, {prompt} of them as a prompt: {lost:.2f} dB from the float model, {simulated:.2f} dB in the simulation; "
      f"at most {np.abs(got - trace['codes']).max() / report['logits_step']:.0f} steps of the logits between the two")
if equal and not np.array_equal(got, trace["codes"]):
    sys.exit(f"{folder}: the simulation is not ONNX Runtime's arithmetic")
# Elsewhere ties fall differently here and there, which spreads through the layers, but is small beside what quantization does.
if abs(lost - simulated) > 0.5 or apart < min(lost + 6, 55):
    sys.exit(f"{folder}: the simulation does not predict ONNX Runtime")
floats = sorted(glob.glob(os.path.join(folder, "*_float.onnx")))
if floats:
    aimet = chain("_float", False)
    same = sqnr(trace["float"], aimet)
    print(f"{folder}: the float graph is {same:.1f} dB from the float model")
    if same < 50:  # LpNormalization has no epsilon
        sys.exit("the float graph is another model")
    for path in floats:
        check = json.load(open(path.removesuffix(".onnx") + ".encodings"))
        graph = onnx.load(path, load_external_data=False).graph
        known = {i.name: list(i.dims) for i in graph.initializer}
        tensors = {o for n in graph.node for o in n.output} | {i.name for i in graph.input}
        assert check["version"] == "1.0.0" and set(check) == {"version", "activation_encodings", "param_encodings", "quantizer_args", "excluded_layers"}
        for kind, names in (("activation_encodings", tensors), ("param_encodings", known)):
            assert len({e["name"] for e in check[kind]}) == len(check[kind])
            for e in check[kind]:
                assert e["name"] in names, e["name"]
                assert set(e) == {"name", "enc_type", "dtype", "bw", "is_sym", "scale", "offset"} and e["dtype"] == "INT"
                assert len(e["scale"]) == len(e["offset"]) and all(x > 0 for x in e["scale"])
                assert all(-(2 ** e["bw"]) < o <= 0 for o in e["offset"])
                if e["enc_type"] == "PER_CHANNEL":
                    shape = known[e["name"]]
                    assert len(e["scale"]) == shape[0 if len(shape) == 4 else 1] and set(e["offset"]) == {-(2 ** (e["bw"] - 1))}
                else:
                    assert e["enc_type"] == "PER_TENSOR" and len(e["scale"]) == 1
