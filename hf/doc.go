// Package hf reads a Hugging Face model folder: config.json in its old and new spellings, the weights, and one table
// per architecture that says what every tensor is.
//
// The tables are the single source of names, shapes and roles. The quantizer takes from them what may be quantized,
// which matrices a server fuses and which norm feeds which matrix; every tensor of a checkpoint is checked against
// them. Adding an architecture is adding one table and registering it.
//
// # Names
//
// Tables are written in the names of the hub checkpoints ("model.layers.0.self_attn.q_proj.weight"). A checkpoint may
// use other prefixes (text models inside multimodal ones, GPT-2 without "transformer.") or hold the experts of a layer
// stacked in one tensor; [Open] finds which, and every [Tensor] then says where its elements are.
//
// # Config
//
// Hyper-parameters of a nested text_config take precedence over the top level. A key that is null counts as absent and
// takes the default of the architecture. Keys nobody here understands are kept, with their order and spelling, when a
// config is written again.
package hf
