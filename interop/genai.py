"""Runs a folder of export --style genai in ONNX Runtime GenAI, on a CPU: prompts of whole windows, of part of one and of three
tokens, then single tokens until the trace of export ends, against what export's simulation wrote there. usage: genai.py FOLDER TRACE"""

import json
import math
import os
import sys
import tempfile

import numpy as np
import onnxruntime_genai as og
from safetensors.numpy import load_file

folder, trace = os.path.abspath(sys.argv[1]), load_file(sys.argv[2])
config = json.load(open(os.path.join(folder, "genai_config.json")))
tokens, want, prompt = trace["tokens"], trace["codes"], int(trace["prompt"][0])
window, vocab = config["model"]["decoder"]["sliding_window"]["window_size"], config["model"]["vocab_size"]


def logits(model, n):
    """Logits behind the first n tokens, then behind every further one."""
    g = og.Generator(model, og.GeneratorParams(model))
    g.append_tokens(tokens[:n])
    rows = [g.get_logits().reshape(-1)[-vocab:].copy()]
    for t in tokens[n:]:
        chosen = np.zeros((1, vocab), np.float32)
        chosen[0, t] = 1
        g.set_logits(chosen)
        g.generate_next_token()
        if g.is_done():
            break
        rows.append(g.get_logits().reshape(-1)[-vocab:].copy())
    return np.array(rows)


def ratio(a, b):
    noise = np.square(a.astype(np.float64) - b).sum()
    return 200 if noise == 0 else 10 * math.log10(np.square(a.astype(np.float64)).sum() / noise)


with tempfile.TemporaryDirectory() as cpu:  # the same folder without the provider of the NPU
    for name in os.listdir(folder):
        os.symlink(os.path.join(folder, name), os.path.join(cpu, name))
    for stages in config["model"]["decoder"]["pipeline"]:
        for stage in stages.values():
            stage["session_options"] = {"graph_optimization_level": "ORT_DISABLE_ALL", "intra_op_num_threads": 1}
    os.remove(os.path.join(cpu, "genai_config.json"))
    with open(os.path.join(cpu, "genai_config.json"), "w") as f:
        json.dump(config, f)
    model = og.Model(cpu)
    for n in [prompt, prompt - window // 2 - 1, 3]:
        got = logits(model, n)
        x, f = want[n - 1 : n - 1 + len(got)], trace["float"][n - 1 : n - 1 + len(got)]
        lost, simulated, same = ratio(f, got), ratio(f, x), (got.argmax(1) == x.argmax(1)).mean()
        print(f"{folder}: GenAI, {n} tokens of prompt, {len(got) - 1} single ones: {lost:.2f} dB from the float model, {simulated:.2f} dB in the simulation; "
              f"the two are {ratio(x, got):.2f} dB apart, {100 * same:.1f} % have the same likeliest token")
        if abs(lost - simulated) > 1 or same < 0.95:
            sys.exit("GenAI computes something else")
