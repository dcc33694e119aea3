// Package fidelity measures how well a model predicts a text, and what a build lost against its reference.
//
// It takes token ids and loaded models; texts, tokenizers and files are the caller's.
//
// # Windows
//
// A text of T tokens is cut into windows of C tokens, each of them run from an empty cache with the true tokens as input
// (teacher forcing). The logits at position j of a window predict its token j+1, so every token but the first of a window
// can be scored: −ln p, in nats. A last window that is not full is left out. Where the tokenizer begins every text with
// tokens of its own, such as BOS, they replace the first tokens of each window, and the text keeps its grid.
//
// Two conventions are in use, and they differ by what they score:
//
//	second half  the tokens C/2 … C−1 of each window, so that each was predicted from at least C/2 others. llama-perplexity
//	             does this, less the first of these tokens
//	all          the tokens 1 … C−1 of each window, as scripts around Hugging Face's transformers do
//
// With a stride S < C windows start S tokens apart, the last may be short, and each scores the tokens that no window
// before it has seen ("strided", transformers' guide to fixed-length models).
//
// # Measures
//
// Of n scored positions, with p the reference's and q the build's distribution over the whole vocabulary:
//
//	NLL         Σ −ln q(token) / n
//	perplexity  exp(NLL)
//	ratio       exp(NLL of the build − NLL of the reference)
//	KL(p‖q)     Σ_v p(v)·(ln p(v) − ln q(v)) at each position, 0 where rounding makes it negative; mean, median and p99.
//	            A quantile f of n sorted values is number ⌊f·n⌋, counted from 0
//	top-1       share of the positions where both have the same likeliest token; of equals the lowest id counts
//	greedy      a prompt counts as matched if both models continue it with the very same tokens; the mean length of the
//	            common prefix says how late the others part
//
// A comparison goes window by window through both models in lockstep, at most 128 positions at a time, and keeps one
// number of each kind per position. Logits are float32 as the models give them; everything after is float64, summed in
// the order of the text.
//
// # Uncertainty
//
// Positions of a window depend on each other, so windows are what is drawn: 95 % intervals are percentiles of 1000
// bootstrap samples of whole windows, from a fixed seed, the same samples for every figure of a run. Under eight windows
// the positions themselves are drawn, which understates the spread. The standard error of a mean is given twice: with
// windows as clusters, √(W/(W−1)·Σ_w (s_w − n_w·mean)²)/n, and as if all positions were independent, as llama-perplexity
// has it. The interval of a count of matched prompts is Wilson's.
package fidelity
