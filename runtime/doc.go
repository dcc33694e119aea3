// Package runtime runs models: any architecture of hf with weights in any representation, floats or any quantized
// format, in the form in which the file holds them.
//
// A step walks the layers once, all threads together (team): every operation is cut by rows, heads or tokens, with a
// barrier where one needs what another thread made. A token's logits depend on its own sequence alone: not on the number
// of threads, on what else is in the batch, or on how a prompt was cut into pieces.
//
// Two rotary embeddings depend on the length of the sequence, as in transformers. Under longrope a sequence that passes
// the original length is run anew; logits handed out before belong to the short one. Under dynamic scaling keys keep the
// rotation of the time when they came, so beyond the model's length it matters how a prompt was cut.
//
// # Activation modes
//
//	F32     the reference: weights are dequantized to float32, as their format defines, and multiplied in float32
//	A16     weights and inputs of every matrix are rounded to bfloat16 first, the arithmetic of bf16 servers
//	A8      inputs of quantized matrices are int8 per token and block: the group of the weights, at most 128 columns
//	A8Row   inputs of quantized matrices are int8 per token over the whole row, as vLLM's W4A8 kernel has them
//
// Under A8 and A8Row codes are multiplied as integers; one float32 multiplication per block applies the scales, and
// float matrices are computed as under A16.
package runtime
