"""Writes names.txt with the gguf package for Python (README.md has the version): what it calls the tensors of the models in
internal/testmodel/golden, of layer 0 and experts 0 and 1, and those outside layers."""
import glob
import json
import os
import re

from gguf.constants import MODEL_ARCH_NAMES
from gguf.tensor_mapping import get_tensor_name_map

ARCHS = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "llama", "MixtralForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2",
         "Qwen3ForCausalLM": "qwen3", "Qwen3MoeForCausalLM": "qwen3moe", "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3",
         "Gemma3ForConditionalGeneration": "gemma3", "Phi3ForCausalLM": "phi3", "SmolLM3ForCausalLM": "smollm3",
         "GraniteForCausalLM": "granite", "Olmo2ForCausalLM": "olmo2", "Olmo3ForCausalLM": "olmo2", "GPT2LMHeadModel": "gpt2"}
here = os.path.dirname(os.path.abspath(__file__))
lines = set()
for path in glob.glob(f"{here}/../../../internal/testmodel/golden/*.json"):
    model = json.load(open(path))
    arch = json.loads(model["config"])["architectures"][0]
    if arch not in ARCHS:
        continue
    names = get_tensor_name_map({v: k for k, v in MODEL_ARCH_NAMES.items()}[ARCHS[arch]], 1)
    present = [t[0] for shard in model["shards"] for t in shard]
    if any(name.endswith(".experts.down_proj") for name in present):
        continue  # experts are stacked; nibble calls them as in checkpoints where they are not
    for name in present:
        plain = name.replace("language_model.model.", "model.").replace("language_model.lm_head", "lm_head")
        plain = re.sub(r"\.experts\.[01]\.", ".experts.", plain)
        if found := names.get_name(plain, try_suffixes=(".weight", ".bias")):
            lines.add(f"{arch} {name} {found}")
open(f"{here}/names.txt", "w").write("\n".join(sorted(lines)) + "\n")
