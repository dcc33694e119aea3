// Package gptq is the GPTQ checkpoint format, the solvers of a symmetric grid, and the solver with error feedback, which
// works on any grid: [Hessian] prepares what is known of a matrix' inputs, its Solve finds parameters and codes column by
// column, [Descent] improves them, [Shift] moves the weights for inputs that have drifted.
//
// # Tensors
//
// A linear y = W·x with W [N, K] (N out features, K in features) in groups of g columns, G = K/g, of b bits has
//
//	NAME.qweight   I32           [K·b/32, N]   codes, packed along K
//	NAME.qzeros    I32           [G, N·b/32]   zero points, packed along N
//	NAME.scales    F16 BF16 F32  [G, N]        the original tools write F16
//	NAME.g_idx     I32           [K]           the group of each column
//	NAME.bias                    [N]           if the layer has one, in float and not part of this package
//
// and no NAME.weight. All matrices are transposed with respect to W: columns of the tensors are rows of W. With the
// code q and zero point z of b bits
//
//	W[n,k] = scales[γ,n] · (q[n,k] − z[γ,n])     γ = g_idx[k], which is k/g in natural order
//
// # Bits
//
// Codes that run along K (zero points: along N) form a little-endian bit stream of 32-bit words, code i at bit i·b:
//
//	4 bits   word r of a column:   31    28 27    24        7      4 3      0
//	                              |q[8r+7] |q[8r+6] |  ...  |q[8r+1]|q[8r]  |
//
// At 3 bits 32 codes fill three words, codes 10 and 21 straddling two. Rows N and columns K must fill whole words: at 4
// bits both are multiples of 8.
//
// Example: K = 16, N = 8, and the first eight codes of row 0 are 0 3 6 9 c f 2 5. They are word 0 of column 0 of qweight,
// 0x52fc9630, and as it happens the first four bytes of the tensor: 30 96 fc 52. The next word in the file belongs to
// row 1.
//
// # Zero points
//
// checkpoint_format says how z is stored:
//
//	gptq_v2   z
//	gptq      z − 1 (v1, the default). A grid with M = 2^(b−1) as its zero, sym:true, has 0x77777777 in every word
//
// v1 breaks where z is 0, and its writers differ:
//
//	AutoGPTQ-style readers   store (z − 1) mod 2^b; add 1 and mask. 0 5 8 8 ... becomes 7777774f
//	GPTQModel                subtracts 0x11111111 from the whole word, borrows running into the neighbours: 7777773f. It
//	                         adds the constant to the whole word again. The config says gptqmodel in meta.quantizer
//	AutoGPTQ's packer        sets the code and all above it in the word to 15: the zero points are lost
//	auto-round               clamps: z = 0 is stored as if it were 1. The group is off by a step, which nothing can repair
//
// The reader adds word by word if meta.quantizer names gptqmodel and code by code otherwise; Warnings names auto-round's
// damage. vLLM does not look at the zero points of a sym:true file, so some of these declare v1 and store 0x88888888
// (the GPTQ export beside cpu_int4). Under sym:true constants of M and of M−1 therefore both mean a symmetric grid, and
// absent zero points do too. Anything else is decoded as it is stored, and the linear's spec says that it is not
// symmetric.
//
// This program writes symmetric grids only. Asymmetric ones are what the conventions disagree about, and vLLM refuses
// them in this format; awq and compressed-tensors hold them.
//
// # Activation order
//
// With desc_act a file may map columns to groups in any order through g_idx; codes stay in natural order of columns.
// The reader looks at g_idx and not at the flag, which is also set where the order is natural. g_idx may be absent
// (auto-round). vLLM ignores it, so the writer stores natural order and desc_act:false.
//
// # Config
//
// quantization_config in config.json, and the same object in quantize_config.json for older tools:
//
//	quant_method        "gptq"
//	bits, group_size    of most modules; group_size −1 is one group per row
//	sym, desc_act       true, false
//	lm_head             whether the output head is quantized
//	checkpoint_format   "gptq" or "gptq_v2"; GPTQModel also calls it format. gptq_p is gptq_v2 at 4 bits
//	pack_dtype          "int32"
//	dynamic             object of rules for the other modules, in order; the first that matches decides
//	meta.quantizer      who wrote the file
//
// A key of dynamic is a regular expression that is matched from the start of a module's name; "-:" before it leaves
// the module in float, "+:" or nothing overrides bits, group_size, sym and desc_act. GPTQModel matches the modules of
// the file, vLLM its own, in which q, k and v are one qkv_proj: the patterns written here name both.
//
// auto-round writes the same tensors, less g_idx, under quant_method "auto-round", with extra_config in place of dynamic
// (names, or patterns found anywhere in one; 16 bits: float), block_name_to_quantize for what is quantized at all, and
// packing_format, of which "auto_round:auto_gptq" is read.
//
// Layout and conventions are those of AutoGPTQ 0.7, GPTQModel 7.7.0, auto-round 0.16.1 and vLLM 0.32; the files of the
// middle two in formats/testdata decode to their own weights in every bit. The error feedback that gave the format its
// name is Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2022).
package gptq
