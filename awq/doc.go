// Package awq is the AWQ checkpoint format, and the solvers of a grid with an integer zero.
//
// # Tensors
//
// A linear y = W·x with W [N, K] (N out features, K in features) in groups of g columns, G = K/g, of 4 bits has
//
//	NAME.qweight   I32           [K, N/8]   codes, packed along N
//	NAME.qzeros    I32           [G, N/8]   zero points, packed the same way
//	NAME.scales    F16 BF16 F32  [G, N]     AutoAWQ writes F16, GPTQModel the model's type
//	NAME.bias                    [N]        if the layer has one, in float and not part of this package
//
// and no NAME.weight. All are transposed with respect to W: columns of the tensors are rows of W.
//
//	W[n,k] = scales[k/g,n] · (q[n,k] − z[k/g,n])     0 ≤ q, z ≤ 15
//
// # Bits
//
// A word holds eight rows of W, 8c to 8c+7, the even ones below the odd ones:
//
//	bit   31  28 27  24 23  20 19  16 15  12 11   8 7    4 3    0
//	row  |  7   |  5   |  3   |  1   |  6   |  4   |  2   |  0   |     + 8c
//
// that is, row 8c+j at bit 0 16 4 20 8 24 12 28 for j = 0 to 7. N must be a multiple of 8.
//
// Example: column 0 of W has the codes 0 5 a f 4 9 e 3 in rows 0 to 7. They are word 0 of qweight, 0x39f5e4a0.
//
// Zero points are stored as they are. A symmetric grid (zero_point:false) stores 8 everywhere, since AutoAWQ's own kernels
// always subtract them. Readers: always decode with what is stored. This one calls a grid symmetric if the config does and
// all zero points are 8 or absent.
//
// The version gemv, which is read but not written, has the same grid in another layout: qweight [N, K/8] with plain
// nibbles along K, qzeros [N, W] with plain nibbles along the groups, scales [N, 8W]. Both are padded with zeros:
// W = m·⌈⌈G/8⌉/m⌉ with m = 4, 2, 1 for g < 64, < 128 and from 128.
//
// # Config
//
// quantization_config in config.json:
//
//	quant_method             "awq"
//	bits, group_size         4, and the group size of all modules; −1 is one group per row. Also w_bit, q_group_size
//	zero_point               whether zero points differ from 8
//	version                  "gemm". gemv_fast, marlin, exllama and llm-awq are other layouts and refused
//	lm_head                  whether the output head is quantized
//	modules_to_not_convert   names of modules left in float, or null
//
// There is no override for single modules, so all quantized ones share group size and kind of zero.
//
// vLLM looks for the names of modules_to_not_convert anywhere in a module's name, and takes the list, if there is one,
// as complete; without one it takes the modules that have no integer tensors. So the writer lists every float linear, or
// writes null where a name would match a quantized module too (layers.1.mlp in model.layers.1.mlp_out).
//
// Layout and keys are those of AutoAWQ 0.2.9, GPTQModel 7.7.0, auto-round 0.16.1 and vLLM 0.32; files of the first three in
// formats/testdata decode to their own weights in every bit.
//
// # Scales
//
// The method that gave the format its name is Lin et al., "AWQ: Activation-aware Weight Quantization for LLM Compression and
// Acceleration" (2023): columns of W are multiplied by s and the inputs divided by it, W·diag(s) and x/s, so that a column with
// large inputs gets a finer grid. What makes x is divided, which changes no output. It works with every format.
//
//	candidates   s_k = m_k^α, α = 0, 0.05, … 0.95, m_k = √H_kk, over √(max s · min s)        Candidate
//	loss         Σ e H eᵀ, e = w − Q(w·s)/s over some rows of every matrix that reads x      Problem.Loss
//
// The smallest loss wins, of equal ones the smaller α. AWQ takes the mean of |x| for m and tries clipped ranges when s is
// found; here the second moment is at hand, and Q, a search over scales, clips already. Where errors are passed on to later columns
// afterwards (package gptq), √D_k takes the place of m and Σ_k D_k e_k² of the loss, with D_k what an error in column k costs when
// the columns behind it have made up for it.
//
// A norm has its weights divided and rounded to their stored type, and s is what that really is: the old weight over the new one
// (Fold). Rows that are divided are quantized afterwards, so that nothing is to be rounded. Query heads that read one
// key/value head share its scales (Share, Spread).
package awq
