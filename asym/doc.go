// Package asym is the cpu_int4 checkpoint format, and the solvers of a grid with a float zero.
//
// The format is that of a vLLM-Omni fork for x86 CPUs, where weights go to PyTorch's int4 kernel.
//
// # Tensors
//
// A linear y = W·x with W [N, K] (N out features, K in features) in groups of g columns, G = K/g, of 4 bits has
//
//	NAME.weight_packed   U8     [N, K/2]   codes, two in a byte
//	NAME.weight_scale    BF16   [N, G]
//	NAME.weight_zero     BF16   [N, G]     an offset in weight units
//
// and no NAME.weight.
//
//	W[n,k] = weight_scale[n,k/g] · (q[n,k] − 8) + weight_zero[n,k/g]     0 ≤ q ≤ 15
//
// K must be even and a multiple of g. The loader splits fused projections by rows and wants a multiple of 16 rows in
// each fused matrix, the rows of a kernel block. A weight costs 4 + 32/g bits.
//
// # Bits
//
// Byte j of a row holds column 2j in its low half and column 2j+1 in its high half:
//
//	bit    7      4 3      0
//	      |q[2j+1] |q[2j]   |
//
// Example: a row that starts with the codes 0 3 6 9 c f 2 5 starts with the bytes 30 96 fc 52.
//
// The kernel's own layout depends on the vector width of the machine that packs and is never stored.
//
// # Config
//
// quantization_config in config.json, with the loader's default for a missing key:
//
//	quant_method         "cpu_int4"
//	bits                 4      not read by the loader
//	group_size           64     of all modules
//	ignore               []     modules left in float: a name, or its end after a dot
//	quantize_embedding   true   whether the embedding has these tensors too; a tied head shares them
//	prefill_dequant      true   how the loader multiplies many rows: by float copies of the weights,
//	dequant_threshold    2      from this many rows on
//
// A file has one group size. The other keys are the loader's and have no effect on the layout.
package asym
