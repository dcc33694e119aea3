// Package formats lists the quantized checkpoint formats and opens a checkpoint of any of them.
//
//	name on the command line   quant_method         package      written                                          read
//	gptq                       gptq                 gptq         4 and 8 bits, symmetric                          2 to 8 bits, v1 and v2 zero points, act-order
//	                           auto-round           gptq         -                                                the same layout with per-layer widths
//	awq                        awq                  awq          4 bits, gemm                                     gemm, gemv
//	compressed-tensors         compressed-tensors   compressed   4 and 8 bits, pack-quantized and int-quantized   2 to 8 bits
//	cpu_int4                   cpu_int4             asym         4 bits, float zero                               the same
//	-                          gguf                 gguf/view    -                                                blocks of GGUF files, whose config is made up
package formats

import (
	"encoding/json"
	"fmt"
	"strings"

	"nibble/asym"
	"nibble/awq"
	"nibble/compressed"
	"nibble/gguf/view"
	"nibble/gptq"
	"nibble/quant"
)

// All are the formats that can be written.
var All = []quant.Format{gptq.Format{}, awq.Format{}, compressed.Format{}, asym.Format{}}

// ByName returns the format with a name, or an error that lists the names.
func ByName(name string) (quant.Format, error) {
	var names []string
	for _, f := range All {
		if f.Name() == name {
			return f, nil
		}
		names = append(names, f.Name())
	}
	return nil, fmt.Errorf("format %q is unknown: it can be %s", name, strings.Join(names, ", "))
}

// Open returns the reader for a checkpoint with the given quantization_config object, or with the object in an old
// quantize_config.json, which names no method and is GPTQ's.
func Open(config []byte) (quant.Reader, error) {
	var c struct {
		Method string `json:"quant_method"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	switch strings.ToLower(c.Method) {
	case "", "gptq", "auto-round", "intel/auto-round":
		return gptq.Open(config)
	case "awq":
		return awq.Open(config)
	case "compressed-tensors":
		return compressed.Open(config)
	case "cpu_int4":
		return asym.Open(config)
	case "gguf":
		return view.Open(), nil
	}
	return nil, fmt.Errorf("quantization_config: quant_method %q is not supported: gptq, auto-round, awq, compressed-tensors and cpu_int4 are", c.Method)
}
