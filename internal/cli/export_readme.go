package cli

import (
	"fmt"
	"strings"
)

// readme is what lies beside the graphs for whoever puts them on a device.
func (x *exporting) readme() string {
	m, g := x.model, &x.graph
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s as graphs for an NPU: %s, keys and values %s, context %d, prompts in pieces of %d.", x.name, x.scheme, x.kv, g.Context, g.Prefill)
	say("Logits against the float model on text that the ranges did not see: SQNR %.2f dB (prompts), %.2f dB (single tokens).", float64(x.result.Prefill.SQNR), float64(x.result.Decode.SQNR))
	say("")
	say("FILES")
	for _, f := range x.export.Files {
		say("  %-24s %d bytes", f.Name, f.Bytes)
	}
	say("")
	say("INPUTS AND OUTPUTS (S tokens: %d in prefill, 1 in decode; C = %d)", g.Prefill, g.Context)
	if g.Inside {
		say("  input_ids [1,S] int32")
	} else {
		say("  input_embeds [1,S,%d] float: rows of the embedding; embedding.onnx makes them of input_ids on the host's processor", m.Hidden)
	}
	say("  attention_mask [1,1,S,C] float: 0 where a token sees a key, %g where not; the last S columns are the new tokens", x.quantizer.Hidden)
	if g.Whole {
		say("  attention_mask_wN: the same for layers with a window of N")
	} else {
		say("  attention_mask_wN: the same for layers with a window of N, over their N-1 earlier keys and the new ones")
	}
	say("  position_ids_cos, position_ids_sin [1,1,S,pairs] float: of position x frequency; with _1 for the second kind of layers")
	past := "P = C-S, or N-1 in layers with a window"
	if g.Whole {
		past = "P = C-S"
	}
	say("  past_key_I_in [%d,1,%d,P], past_value_I_in [%d,1,P,%d] %s: %s", m.KVHeads, m.HeadDim, m.KVHeads, m.HeadDim, x.kv, past)
	say("  logits [1,S,%d] float; past_key_I_out [..,S], past_value_I_out: the new tokens only, for the host to append", m.Vocab)
	if g.Whole {
		say("  The order of the places does not matter, if the mask has the same. Places that hold nothing are masked.")
	} else {
		say("  Position p is kept in place p; in layers with a window in place p mod (N-1). Places that hold nothing are masked.")
	}
	say("  The last piece of a prompt may be padded with any token; what is made of padding is not kept.")
	say("")
	say("RUN IT WITHOUT A DEVICE (ONNX Runtime computes the very same arithmetic on a CPU)")
	say("  pip install onnxruntime")
	say("  python -c \"import onnxruntime as o; s = o.InferenceSession('decode.onnx'); print([i.name for i in s.get_inputs()])\"")
	say("")
	if x.style == genaiStyle {
		say("RUN IT WITH ONNX RUNTIME GENAI")
		say("  pip install onnxruntime-genai   (with the QNN provider: onnxruntime-genai and onnxruntime-qnn, or Maven's onnxruntime-android-qnn)")
		say("  genai_config.json runs the stages in its order: embedding and position-processor on the host, the others on the NPU. On a host")
		say("  without one take the lines \"session_options\" out of these stages. Prompts are padded with token %d, which no text has.", m.Vocab)
		say("  python - <<'EOF'")
		say("  import onnxruntime_genai as og")
		say("  model = og.Model('.'); tokenizer = og.Tokenizer(model); generator = og.Generator(model, og.GeneratorParams(model))")
		say("  generator.append_tokens(tokenizer.encode('Once upon a time'))")
		say("  while not generator.is_done(): generator.generate_next_token()")
		say("  print(tokenizer.decode(generator.get_sequence(0)))")
		say("  EOF")
		say("")
	}
	say("COMPILE FOR A SNAPDRAGON NPU")
	say("  On the device or on x64 with ONNX Runtime's QNN provider (pip install onnxruntime-qnn); the context binary appears beside the model:")
	say("  python - <<'EOF'")
	say("  import onnxruntime as ort")
	say("  for name in ['prefill', 'decode']:")
	say("      o = ort.SessionOptions()")
	say("      o.add_session_config_entry('ep.context_enable', '1')")
	say("      o.add_session_config_entry('ep.context_file_path', name + '_ctx.onnx')")
	say("      ort.InferenceSession(name + '.onnx', o, providers=['QNNExecutionProvider'],")
	say("          provider_options=[{'backend_path': 'libQnnHtp.so', 'htp_performance_mode': 'burst', 'soc_model': '0'}])")
	say("  EOF")
	if x.style == aimetStyle {
		say("  With Qualcomm's converter (of a graph in parts every part alike):")
		say("  qairt-converter --input_network decode_float.onnx --quantization_overrides decode_float.encodings --output_path decode.dlc")
		say("  With Qualcomm AI Hub:")
		say("  mkdir decode.aimet && ln decode_float.onnx decode.aimet/model.onnx && ln float.data decode.aimet/float.data && ln decode_float.encodings decode.aimet/model.encodings")
		say("  qai-hub submit-compile-job --model decode.aimet --device 'Samsung Galaxy S25 (Family)' --compile_options '--target_runtime qnn_context_binary --quantize_full_type w8a16 --quantize_io'")
	}
	say("  int16 keys and values, and 16-bit weights, need HTP 73 (Snapdragon 8 Gen 2) or later; --kv uint8 runs on all.")
	return b.String()
}
