// Package compressed is the compressed-tensors checkpoint format, that of llm-compressor and vLLM.
//
// # Tensors
//
// A linear y = W·x with W [N, K] (N out features, K in features) in groups of g columns, G = K/g, of b bits has, in the
// format pack-quantized,
//
//	NAME.weight_packed       I32           [N, ⌈K·b/32⌉]   codes, packed along K
//	NAME.weight_scale        BF16 F16 F32  [N, G]          in the model's type
//	NAME.weight_zero_point   I32           [⌈N·b/32⌉, G]   zero points packed along N, with an integer zero only
//	NAME.weight_shape        I64           [2]             N, K
//	NAME.weight_g_idx        I32           [K]             the group of each column (of old versions; read, not written)
//
// and in the format int-quantized (b = 8, symmetric)
//
//	NAME.weight         I8            [N, K]   codes less 128
//	NAME.weight_scale   BF16 F16 F32  [N, 1]   one per row, [1] in some files
//
// In memory the project's codes and zero points are signed; 2^(b−1) is added to both when they are packed, so that with
// stored values
//
//	W[n,k] = weight_scale[n,k/g] · (q[n,k] − z[n,k/g])     symmetric: z = 2^(b−1), not stored
//
// # Bits
//
// Codes that run along K (zero points: along N) form a little-endian bit stream of 32-bit words, code i at bit i·b. Every
// row (group) starts a word; what is left of its last word is 0.
//
//	4 bits   word c of a row:   31    28 27    24        7      4 3      0
//	                           |q[8c+7] |q[8c+6] |  ...  |q[8c+1]|q[8c]  |
//
// So weight_packed is the transpose of GPTQ's qweight. Example: a row that starts with the codes 0 3 6 9 c f 2 5 starts with
// the word 0x52fc9630, bytes 30 96 fc 52. Rows 0 to 7 of a group with the zero points 7 9 b d f 1 3 5 are the word
// 0x531fdb97. At 3, 5, 6 and 7 bits codes straddle words; versions before 0.18 padded them instead, which is refused.
//
// # Config
//
// quantization_config in config.json:
//
//	quant_method          "compressed-tensors"
//	version               of the project's format
//	format                "pack-quantized" (4- and 8-bit weights, float activations), "int-quantized" (8-bit weights
//	                      and activations), or "mixed-precision" if groups differ
//	quantization_status   "compressed"
//	ignore                names of linears left in float
//	config_groups         object of groups: {targets, format, weights, input_activations, output_activations}
//
// A scheme (weights, input_activations) has exactly the keys num_bits, type, symmetric, strategy, group_size, dynamic,
// actorder, block_structure, observer, observer_kwargs, scale_dtype and zp_dtype; the project rejects others. strategy is
// "group" with a group_size, "channel" without, "token" for activations.
//
// A target, as an entry of ignore, is a class ("Linear"), the name of a module, or "re:" and a regular expression that is
// matched from the start of a name. Names win over patterns, patterns over classes, ignore over all. vLLM joins q, k and
// v into one qkv_proj and looks for that name and for the class before it looks at the shards: a group of named modules
// names both. vLLM's output head is no Linear, so that a quantized one is named too, as "re:.*lm_head".
//
// Layout and keys are those of compressed-tensors 0.13 to 0.20 and vLLM 0.32. The files of llm-compressor 0.9 and 0.14 and
// of auto-round 0.16.1 in formats/testdata decode to the weights that the project itself makes of them, in every bit.
package compressed
