// Package npu writes language models as graphs for neural processors, finds the ranges of their activations, and computes
// what they lose without one.
//
// No vendor publishes a binary format that others may write, so what is written is what their tools read: ONNX with
// quantizers (QDQ), which ONNX Runtime's QNN provider compiles, on the device or before, and, on demand, the float graph with
// AIMET's encodings, which Qualcomm's converter and AI Hub take.
//
// # The graphs
//
// There are two, with fixed shapes, over one file of weights: prefill runs S tokens of a prompt, decode one. C is the
// context, P the past that a layer keeps, D the dimension of a head.
//
//	in   input_embeds [1,S,hidden] float           rows of the embedding, or input_ids [1,S] int32 with the table inside
//	     attention_mask [1,1,S,C] float            0 where a token sees a key, else mask_hidden (of the file's metadata)
//	     attention_mask_wN [1,1,S,P+S]             the same for layers with a window of N tokens
//	     position_ids_cos, _sin [1,1,S,pairs]      angles; with _1 for the second kind of layers
//	     past_key_I_in [kv heads,1,D,P]            keys lie transposed; uint8 with zero point 128, or int16
//	     past_value_I_in [kv heads,1,P,D]
//	out  logits [1,S,vocab] float
//	     past_key_I_out, past_value_I_out          of the new tokens only
//
// P is C-S, and position p is kept in place p. Layers with a window of N keep N-1 entries in a ring, position p in place
// p mod (N-1): the order of keys does not matter to a softmax, and nothing has to be moved. New keys stand behind the past.
//
// Heads of queries that share keys are rows of one product, so keys are never repeated. The factor on q·k is in the weights
// of q or of its norm, factors on residuals, logits and soft caps are in weights too. A norm is LpNormalization, which all
// compilers have and which knows no epsilon; where the calibration text shows that the epsilon matters, the vector gets one
// more element, sqrt(n·eps), before. The head is cut into parts of 64 MiB.
//
// # Grids
//
// Every value between two operations is quantized, one grid per tensor:
//
//	activations       asymmetric uint16 (uint8) over the range that was seen, times a headroom: at 16 bits a step is cheap
//	                  and clipping is not
//	keys and values   symmetric int16, or uint8 with zero point 128; never asymmetric uint16, which compilers turn into 8
//	                  bits without a word
//	matrices          symmetric int8 (4, 16 bits) per output channel, without the lowest code
//	norms, biases     as activations, since both sides of an operation need one type
//	sigmoid, tanh, softmax   fixed: those that the processors have whatever the file says
//
// What only moves data has one grid on both sides. A rotation has one from end to end.
//
// # The simulator
//
// Calibrate, Evaluate and Sensitivity run the very description that is written, node by node, in float32, with
// QuantizeLinear and DequantizeLinear as ONNX defines them (division, ties to even, saturation), weights strip by strip from
// the checkpoint, so that memory does not grow with the model. Evaluate has the order of sums and the curves of ONNX Runtime (order.go,
// curves.go), and gives its codes, all of them. A Promotion gives matrices more bits, where a byte takes most noise off, until a Goal is
// measured on text of its own.
package npu
