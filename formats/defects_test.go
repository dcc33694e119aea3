package formats

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"nibble/formats/formattest"
	"nibble/quant"
	"nibble/safetensors"
)

// sound returns a checkpoint of one module [32, 64] in groups of 16, and its reader.
func sound(t *testing.T, format string, s quant.Spec) (formattest.Checkpoint, quant.Reader) {
	t.Helper()
	f, err := ByName(format)
	if err != nil {
		t.Fatal(err)
	}
	s.Group, s.Scale = 16, safetensors.BF16
	if s.Int8 {
		s.Group = -1
	}
	m := quant.NewMatrix(32, 64, s.Bits, s.GroupSize(64), s.Zero)
	for i := range m.Scales {
		m.Scales[i] = 1
	}
	config, err := f.Config([]quant.Module{{Name: formattest.Module, N: 32, K: 64, Class: "Linear", Spec: &s}}, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return formattest.Write(t, f, s, quant.Options{}, m, 32), r
}

// Every damage is a defect of the right kind that names the tensor.
func TestDefects(t *testing.T) {
	const x = formattest.Module
	drop := func(suffix string) func(formattest.Checkpoint) {
		return func(c formattest.Checkpoint) { delete(c, x+suffix) }
	}
	add := func(suffix string, d safetensors.DType, shape ...int) func(formattest.Checkpoint) {
		return func(c formattest.Checkpoint) { c.Add(x+suffix, d, shape...) }
	}
	fill := func(suffix string, b byte) func(formattest.Checkpoint) {
		return func(c formattest.Checkpoint) {
			for i := range c[x+suffix].Data {
				c[x+suffix].Data[i] = b
			}
		}
	}
	sym4, int4 := quant.Spec{Bits: 4}, quant.Spec{Bits: 4, Zero: quant.Integer}
	for _, c := range []struct {
		name, format string
		spec         quant.Spec
		damage       func(formattest.Checkpoint)
		tensor, kind string
	}{
		{"gptq without codes", "gptq", sym4, drop(".qweight"), ".qweight", quant.MissingTensor},
		{"gptq without scales", "gptq", sym4, drop(".scales"), ".scales", quant.MissingTensor},
		{"gptq codes of bytes", "gptq", sym4, add(".qweight", safetensors.U8, 8, 32), ".qweight", quant.BadType},
		{"gptq with a scale too few", "gptq", sym4, add(".scales", safetensors.F16, 4, 31), ".qweight", quant.BadShape},
		{"gptq with a group too few", "gptq", sym4, add(".scales", safetensors.F16, 3, 32), ".qzeros", quant.BadShape},
		{"gptq zero points of no width", "gptq", sym4, add(".qzeros", safetensors.I32, 4, 9), ".qzeros", quant.BadShape},
		{"gptq with a scalar scale", "gptq", sym4, add(".scales", safetensors.F16), ".scales", quant.BadShape},
		{"gptq with no groups", "gptq", sym4, add(".scales", safetensors.F16, 0, 32), ".scales", quant.BadShape},
		{"gptq group map out of range", "gptq", sym4, fill(".g_idx", 1), ".g_idx", quant.BadData},
		{"gptq group map too short", "gptq", sym4, add(".g_idx", safetensors.I32, 63), ".g_idx", quant.BadShape},
		{"gptq scales that are no numbers", "gptq", sym4, fill(".scales", 0xff), ".scales", quant.BadData},
		{"awq without zero points", "awq", int4, drop(".qzeros"), ".qzeros", quant.MissingTensor},
		{"awq rows of no words", "awq", int4, add(".scales", safetensors.F16, 4, 30), ".scales", quant.BadShape},
		{"awq with seven groups", "awq", int4, add(".scales", safetensors.F16, 7, 32), ".scales", quant.BadShape},
		{"awq packed as gptq", "awq", int4, add(".qweight", safetensors.I32, 8, 32), ".qweight", quant.BadShape},
		{"ct without codes", "compressed-tensors", sym4, drop(".weight_packed"), ".weight_packed", quant.MissingTensor},
		{"ct shape of another matrix", "compressed-tensors", sym4, fill(".weight_shape", 1), ".weight_shape", quant.BadData},
		{"ct shape of three", "compressed-tensors", sym4, add(".weight_shape", safetensors.I64, 3), ".weight_shape", quant.BadShape},
		{"ct words of no width", "compressed-tensors", sym4, add(".weight_packed", safetensors.I32, 32, 9), ".weight_packed", quant.BadShape},
		{"ct signed zero points", "compressed-tensors", int4, add(".weight_zero_point", safetensors.I8, 32, 4), ".weight_zero_point", quant.BadType},
		{"ct five groups", "compressed-tensors", sym4, add(".weight_scale", safetensors.BF16, 32, 5), ".weight_scale", quant.BadShape},
		{"ct asymmetric bytes", "compressed-tensors", quant.Spec{Bits: 8, Int8: true}, add(".weight_zero_point", safetensors.I8, 32, 1), ".weight_zero_point", quant.Unsupported},
		{"cpu_int4 with a zero too few", "cpu_int4", quant.Spec{Bits: 4, Zero: quant.Float}, add(".weight_zero", safetensors.BF16, 31, 4), ".weight_zero", quant.BadShape},
		{"cpu_int4 in f16", "cpu_int4", quant.Spec{Bits: 4, Zero: quant.Float}, add(".weight_scale", safetensors.F16, 32, 4), ".weight_scale", quant.BadType},
		{"cpu_int4 zeros that are no numbers", "cpu_int4", quant.Spec{Bits: 4, Zero: quant.Float}, fill(".weight_zero", 0xff), ".weight_zero", quant.BadData},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, r := sound(t, c.format, c.spec)
			c.damage(src)
			l, err := r.Open(x, src)
			if err == nil {
				_, err = l.Rows(0, 32)
			}
			var d *quant.Defect
			if !errors.As(err, &d) || d.Tensor != x+c.tensor || d.Kind != c.kind || d.Module != x {
				t.Errorf("%v, want %s of %s", err, c.kind, c.tensor)
			}
		})
	}
}

// What differs from the config but can be read is read; the linear's spec tells.
func TestTensorsWinOverConfig(t *testing.T) {
	const x = formattest.Module
	src, r := sound(t, "gptq", quant.Spec{Bits: 4})
	src.Add(x+".scales", safetensors.F32, 2, 32)
	src.Add(x+".qzeros", safetensors.I32, 2, 8) // 8 bits
	src.Add(x+".qweight", safetensors.U32, 16, 32)
	delete(src, x+".g_idx")
	l, err := r.Open(x, src)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Spec(), (quant.Spec{Bits: 8, Group: 32, Zero: quant.Integer, Scale: safetensors.F32}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	src, r = sound(t, "gptq", quant.Spec{Bits: 4})
	delete(src, x+".qzeros")
	if l, err = r.Open(x, src); err != nil || l.Spec().Zero != quant.Symmetric {
		t.Errorf("symmetric without zero points: %v", err)
	}
	src, r = sound(t, "compressed-tensors", quant.Spec{Bits: 4})
	delete(src, x+".weight_shape")
	if l, err = r.Open(x, src); err != nil {
		t.Fatal(err)
	}
	if n, k := l.Shape(); n != 32 || k != 64 {
		t.Errorf("without weight_shape: [%d %d]", n, k)
	}
	src, r = sound(t, "compressed-tensors", quant.Spec{Bits: 8, Int8: true})
	binary.LittleEndian.PutUint16(src.Add(x+".weight_scale", safetensors.BF16, 1).Data, 0x4000)
	if l, err = r.Open(x, src); err != nil {
		t.Fatal(err)
	}
	if m := formattest.Read(t, l, 32); m.Scales[0] != 2 || m.Scales[31] != 2 {
		t.Errorf("one scale for all rows: %v", m.Scales)
	}
}

// A last group that is not full, as old GPTQ files have it, is read if the config names the group size.
func TestRaggedGroup(t *testing.T) {
	src, _ := sound(t, "gptq", quant.Spec{Bits: 4})
	src.Add(formattest.Module+".scales", safetensors.F16, 2, 32)
	src.Add(formattest.Module+".qzeros", safetensors.I32, 2, 4)
	idx := src[formattest.Module+".g_idx"].Data
	for k := range 64 {
		binary.LittleEndian.PutUint32(idx[4*k:], uint32(k/48))
	}
	r, err := Open([]byte(`{"bits":4,"group_size":48,"sym":false}`))
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.Open(formattest.Module, src)
	if err != nil {
		t.Fatal(err)
	}
	m, err := l.Rows(0, 32)
	if err != nil || m.Group != 48 || m.Groups() != 2 || m.GroupOf != nil {
		t.Errorf("%v: groups of %d, map %v", err, m.Group, m.GroupOf)
	}
}

func TestRowsOutsideTheMatrix(t *testing.T) {
	for _, c := range specs {
		src, r := sound(t, c.format, c.spec)
		l, err := r.Open(formattest.Module, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, strip := range [][2]int{{-32, 32}, {16, 8}, {0, 33}, {32, 1}, {0, 0}} {
			if _, err := l.Rows(strip[0], strip[1]); err == nil {
				t.Errorf("%s: rows %d, %d are read", c.format, strip[0], strip[1])
			}
		}
	}
}

func TestUnknownMethods(t *testing.T) {
	for _, method := range []string{"bitsandbytes", "fp8", "mxfp4", "hqq", "torchao"} {
		if _, err := Open([]byte(`{"quant_method":"` + method + `"}`)); err == nil || !strings.Contains(err.Error(), method) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, err := ByName("gguf2"); err == nil || !strings.Contains(err.Error(), "gptq, awq, compressed-tensors, cpu_int4") {
		t.Error(err)
	}
}
