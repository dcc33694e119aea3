// Package runtime runs models: any architecture of hf with weights in any representation, floats or any quantized
// format.
//
// Loading lays every matrix out once, outside the heap, in panels of 32 rows (package kernel) that keep the codes of the
// file: a decoding step reads them in one stream. Gate and up share panels, so that their product is one pass with the
// activation at its end; fused projections of a checkpoint are taken apart. Under F32 floats stay as the file has them.
//
// A step walks the layers once, all threads together (team): every operation is cut by panels, heads or tokens, with a
// barrier where one needs what another thread made. When it has one token, every thread has the residual stream and does
// norms and preparation of inputs itself, which costs less than waiting for another. A token's logits depend on its own
// sequence alone: not on the number of threads, on what else is in the batch, or on how a prompt was cut into pieces.
//
// Two rotary embeddings depend on the length of the sequence, as in transformers. Under longrope a sequence that passes
// the original length is run anew; logits handed out before belong to the short one. Under dynamic scaling keys keep the
// rotation of the time when they came, so beyond the model's length it matters how a prompt was cut.
//
// # Activation modes
//
//	F32     the reference: weights are dequantized to float32, as their format defines, and multiplied in float32
//	A16     inputs of every matrix are rounded to bfloat16, weights are bfloat16 or exact codes: the arithmetic of bf16 servers
//	A8      inputs of quantized matrices are int8 per token and block: the group of the weights, at most 128 columns
//	A8Row   inputs of quantized matrices are int8 per token over the whole row, as vLLM's W4A8 kernel has them
//
// Codes are multiplied as they are, as integers under A8 and A8Row, and scales applied once per block; package kernel
// states the order of every sum. Float matrices under A8 are computed as under A16.
package runtime
