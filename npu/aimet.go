package npu

import (
	"io"
	"strings"
)

// The float graphs with AIMET's encodings, version 1.0.0, beside them: what Qualcomm's converters take. Real values are
// scale·(q + offset) with q from 0 to 2^bw-1, so an offset is a negative zero point, and that of signed weights is -2^(bw-1).

// The files: NAME_float.onnx, NAME_float.encodings, and one with the weights.
const (
	floatSuffix = "_float.onnx"
	floatData   = "float.data"
)

// aimetFile is a file of encodings.
type aimetFile struct {
	Version     string          `json:"version"`
	Activations []aimetEncoding `json:"activation_encodings"`
	Params      []aimetEncoding `json:"param_encodings"`
	Args        aimetArgs       `json:"quantizer_args"`
	Excluded    []string        `json:"excluded_layers"`
}

type aimetArgs struct {
	ActivationBits int    `json:"activation_bitwidth"`
	ParamBits      int    `json:"param_bitwidth"`
	DType          string `json:"dtype"`
	Symmetric      bool   `json:"is_symmetric"`
	PerChannel     bool   `json:"per_channel_quantization"`
	Scheme         string `json:"quant_scheme"`
}

type aimetEncoding struct {
	Name      string    `json:"name"`
	Type      string    `json:"enc_type"`
	DType     string    `json:"dtype"`
	Bits      int       `json:"bw"`
	Symmetric bool      `json:"is_sym"`
	Scale     []float32 `json:"scale"`
	Offset    []int32   `json:"offset"`
}

// WriteAIMET writes the float graphs with their encodings, in the parts that the others have.
func (x *Export) WriteAIMET(dir string) error {
	store := newStore(newGraph(x.Model, "decode", x.Options, 1), nil, floatData)
	for _, s := range x.stages {
		name := strings.TrimSuffix(s.file, ".onnx")
		if err := x.file(dir, name+floatSuffix, emit(s.graph, store, nil).Encode()); err != nil {
			return err
		}
		if err := x.AddJSON(dir, name+"_float.encodings", x.aimet(s.graph)); err != nil {
			return err
		}
	}
	return x.stream(dir, floatData, store.Size, func(w io.WriterAt) error { return store.write(w, x.Threads, nil) })
}

// aimet lists the encodings of a graph. What only moves data takes the encoding of what it moves.
func (x *Export) aimet(g *graph) *aimetFile {
	q := x.Quantizer
	f := &aimetFile{Version: "1.0.0", Excluded: []string{}, Args: aimetArgs{q.Act, q.Weight, "int", true, true, "min_max"}}
	seen := map[string]bool{}
	add := func(list *[]aimetEncoding, name string, e Encoding) {
		if !seen[name] {
			seen[name] = true
			*list = append(*list, tensorEncoding(name, e))
		}
	}
	for _, v := range g.Inputs {
		if v.Class != plain {
			add(&f.Activations, inputName(v), q.encoding(v))
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			switch {
			case v.Kind == constant || v.Kind == weight && v.Param.Table:
				add(&f.Params, v.Param.Name, q.encoding(v))
			case v.Kind == weight && !seen[v.Param.Name]:
				seen[v.Param.Name] = true
				f.Params = append(f.Params, channelEncoding(v.Param, q.bits(v.Param), x.scales[v.Param.Name]))
			}
		}
		if n.Op == "Concat" && n.Out.Class != cached || !moves(n) && n.Op != "Convert" && n.Op != "Slice" {
			add(&f.Activations, n.Out.Name, q.encoding(n.Out))
		}
	}
	for _, v := range g.Outputs {
		add(&f.Activations, v.Out, q.encoding(v))
	}
	return f
}

// tensorEncoding is a grid of a whole tensor.
func tensorEncoding(name string, e Encoding) aimetEncoding {
	lo, _ := e.Type.limits()
	symmetric := lo < 0 || e.Zero == int32(1)<<(e.Type.Bits()-1)
	return aimetEncoding{name, "PER_TENSOR", "INT", e.Type.Bits(), symmetric, []float32{e.Scale}, []int32{int32(lo) - e.Zero}}
}

// channelEncoding is the grid of a matrix.
func channelEncoding(p *param, bits int, scales []float32) aimetEncoding {
	x := aimetEncoding{p.Name, "PER_CHANNEL", "INT", bits, true, scales, make([]int32, len(scales))}
	for i := range x.Offset {
		x.Offset[i] = -1 << (bits - 1)
	}
	return x
}
