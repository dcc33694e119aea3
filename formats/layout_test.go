package formats

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nibble/formats/formattest"
	"nibble/quant"
	"nibble/safetensors"
)

// The vector: K = 16, N = 8, groups of 8. Columns of the table are rows of the matrix.
const vectorCodes = `
05af49e3 38d38d38 6b17c28d 9f5b17d3
c28f5b28 f5c3907d 2907e5c3 5c3b2918
8f7f6e6d b3b3b3b3 e6e7f708 192b3c5d
4d6f81a3 7093c5f8 a3d70a4d d71b5f93`

var vectorZeros = [2]string{"79bdf135", "8ace0246"}

func vectorMatrix(t *testing.T, zero quant.Zero) *quant.Matrix {
	t.Helper()
	m := quant.NewMatrix(8, 16, 4, 8, zero)
	for k, line := range strings.Fields(vectorCodes) {
		for n := range line {
			m.Codes[n*16+k] = hexDigit(line[n])
		}
	}
	for i := range m.Scales {
		m.Scales[i] = float32(i+1) / 16
	}
	for i := range m.Zeros {
		m.Zeros[i] = hexDigit(vectorZeros[i%2][i/2])
	}
	for i := range m.Bias {
		m.Bias[i] = float32(i) / 8
	}
	return m
}

func hexDigit(c byte) uint8 { return uint8(strings.IndexByte("0123456789abcdef", c)) }

// words prints the 32-bit words of a tensor.
func words(t *testing.T, c formattest.Checkpoint, suffix string) string {
	t.Helper()
	tensor, ok := c[formattest.Module+suffix]
	if !ok {
		t.Fatalf("no tensor %s", suffix)
	}
	var s []string
	for i := 0; i < len(tensor.Data); i += 4 {
		s = append(s, fmt.Sprintf("%08x", binary.LittleEndian.Uint32(tensor.Data[i:])))
	}
	return strings.Join(s, " ")
}

// The words were computed by an independent program.
var layouts = []struct {
	format  string
	zero    quant.Zero
	options quant.Options
	config  string
	want    map[string]string
}{
	{"gptq", quant.Symmetric, quant.Options{}, `{"quant_method":"gptq","bits":4,"group_size":8,"sym":true}`, map[string]string{
		".qweight": "52fc9630 c952fb85 30c851da b73fb73f 2e951c84 950b72d9 1c72d83e 83d83d83 " +
			"da741eb8 730d963f 1d962eb7 b73fb73f 50c83fb6 fa51c73e 94fa50b6 3d83d83d",
		".qzeros": "77777777 77777777",
		".g_idx": "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 " +
			"00000001 00000001 00000001 00000001 00000001 00000001 00000001 00000001",
	}},
	{"gptq", quant.Symmetric, quant.Options{CheckpointFormat: "gptq_v2"}, `{"quant_method":"gptq","bits":4,"group_size":8,"sym":true,"checkpoint_format":"gptq_v2"}`, map[string]string{
		".qzeros": "88888888 88888888",
	}},
	{"awq", quant.Integer, quant.Options{}, `{"quant_method":"awq","bits":4,"group_size":8,"zero_point":true}`, map[string]string{
		".qweight": "39f5e4a0 8d3838d3 d27b8c16 37bfd159 8bf2258c d03579cf 3579ce02 89bc1235 " +
			"deff6678 3333bbbb 87760fee dcb95321 31fda864 8530fc97 da7340da 3fb7951d",
		".qzeros": "51d93fb7 62ea40c8",
	}},
	{"awq", quant.Symmetric, quant.Options{}, `{"quant_method":"awq","bits":4,"group_size":8,"zero_point":false}`, map[string]string{
		".qzeros": "88888888 88888888",
	}},
	{"compressed-tensors", quant.Integer, quant.Options{}, ctConfig(8, false), map[string]string{
		".weight_packed": "52fc9630 da741eb8 c952fb85 730d963f 30c851da 1d962eb7 b73fb73f b73fb73f " +
			"2e951c84 50c83fb6 950b72d9 fa51c73e 1c72d83e 94fa50b6 83d83d83 3d83d83d",
		".weight_zero_point": "531fdb97 6420eca8",
		".weight_shape":      "00000008 00000000 00000010 00000000",
	}},
	{"compressed-tensors", quant.Symmetric, quant.Options{}, ctConfig(8, true), map[string]string{
		".weight_shape": "00000008 00000000 00000010 00000000",
	}},
}

func ctConfig(group int, sym bool) string {
	return fmt.Sprintf(`{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],
		"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":%d,"symmetric":%t}}}}`, group, sym)
}

func TestLayoutVectors(t *testing.T) {
	for _, c := range layouts {
		t.Run(fmt.Sprintf("%s/%s/%s", c.format, c.zero, c.options.CheckpointFormat), func(t *testing.T) {
			f, err := ByName(c.format)
			if err != nil {
				t.Fatal(err)
			}
			m := vectorMatrix(t, c.zero)
			s := quant.Spec{Bits: 4, Group: 8, Zero: c.zero, Scale: safetensors.F16}
			got := formattest.Write(t, f, s, c.options, m, 8)
			for suffix, want := range c.want {
				if words(t, got, suffix) != want {
					t.Errorf("%s\n got %s\nwant %s", suffix, words(t, got, suffix), want)
				}
			}
			r, err := Open([]byte(c.config))
			if err != nil {
				t.Fatal(err)
			}
			l, err := r.Open(formattest.Module, got)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, formattest.Read(t, l, 32), m)
		})
	}
}

func equal(t formattest.TB, got, want *quant.Matrix) {
	t.Helper()
	if !slices.Equal(got.Codes, want.Codes) {
		t.Errorf("codes\n got %v\nwant %v", got.Codes, want.Codes)
	}
	if !slices.Equal(got.Scales, want.Scales) {
		t.Errorf("scales\n got %v\nwant %v", got.Scales, want.Scales)
	}
	if !slices.Equal(got.Zeros, want.Zeros) {
		t.Errorf("zeros\n got %v\nwant %v", got.Zeros, want.Zeros)
	}
	if !slices.Equal(got.Bias, want.Bias) {
		t.Errorf("float zeros\n got %v\nwant %v", got.Bias, want.Bias)
	}
	if got.Zero != want.Zero || got.Bits != want.Bits || got.Group != want.Group {
		t.Errorf("%d bits, groups of %d, %s; want %d, %d, %s", got.Bits, got.Group, got.Zero, want.Bits, want.Group, want.Zero)
	}
}

// A zero point of 0 is where the conventions of v1 part: each writer's words must give z = 0, 5, 8, 8, ... under its own
// reading, and the asymmetric vector must read back under v2 and under both kinds of v1.
func TestGPTQZeroPoints(t *testing.T) {
	asym := func(extra string) string {
		return `{"quant_method":"gptq","bits":4,"group_size":8,"sym":false` + extra + `}`
	}
	v1, v2 := asym(``), asym(`,"checkpoint_format":"gptq_v2"`)
	peer := asym(`,"meta":{"quantizer":["gptqmodel:7.7.0"]}`)
	hazard := []uint8{0, 5, 8, 8, 8, 8, 8, 8}
	vector := vectorMatrix(t, quant.Integer)
	for _, c := range []struct {
		name, config string
		words        []uint32
		want         []uint8 // by row, then group
	}{
		{"v2", v2, []uint32{0x88888850, 0x88888850}, hazard},
		{"v1, nibble wrap", v1, []uint32{0x7777774f, 0x7777774f}, hazard},
		{"v1, word subtract", peer, []uint32{0x7777773f, 0x7777773f}, hazard},
		{"v1 of AutoGPTQ, which smears", v1, []uint32{0xffffffff, 0xffffffff}, make([]uint8, 8)},
		{"v2 vector", v2, []uint32{0x531fdb97, 0x6420eca8}, vector.Zeros},
		{"v1 vector, nibble wrap", v1, []uint32{0x420eca86, 0x531fdb97}, vector.Zeros},
		{"v1 vector, word subtract", peer, []uint32{0x420eca86, 0x530fdb97}, vector.Zeros},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _ := ByName("gptq")
			src := formattest.Write(t, f, quant.Spec{Bits: 4, Group: 8, Scale: safetensors.F16}, quant.Options{}, vectorMatrix(t, quant.Symmetric), 8)
			for i, w := range c.words {
				binary.LittleEndian.PutUint32(src[formattest.Module+".qzeros"].Data[4*i:], w)
			}
			r, err := Open([]byte(c.config))
			if err != nil {
				t.Fatal(err)
			}
			l, err := r.Open(formattest.Module, src)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if len(want) == 8 {
				want = nil
				for _, z := range c.want {
					want = append(want, z, z)
				}
			}
			if got := formattest.Read(t, l, 32).Zeros; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// Symmetric words are symmetric under either convention; others win over sym:true.
func TestGPTQSymmetricZeros(t *testing.T) {
	for word, want := range map[uint32]quant.Zero{
		0x77777777: quant.Symmetric, 0x88888888: quant.Symmetric, // cpu_int4's companion writer declares v1 and stores 8
		0x66666666: quant.Integer, 0x78777777: quant.Integer,
	} {
		f, _ := ByName("gptq")
		src := formattest.Write(t, f, quant.Spec{Bits: 4, Group: 8, Scale: safetensors.F16}, quant.Options{}, vectorMatrix(t, quant.Symmetric), 8)
		for i := range 2 {
			binary.LittleEndian.PutUint32(src[formattest.Module+".qzeros"].Data[4*i:], word)
		}
		r, err := Open([]byte(`{"bits":4,"group_size":8}`))
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.Open(formattest.Module, src)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Spec().Zero; got != want {
			t.Errorf("%08x: %s, want %s", word, got, want)
		}
	}
}

func TestCPUInt4Vector(t *testing.T) {
	f, _ := ByName("cpu_int4")
	m := quant.NewMatrix(16, 16, 4, 8, quant.Float)
	copy(m.Codes, vectorMatrix(t, quant.Float).Codes)
	for i := range m.Scales {
		m.Scales[i], m.Bias[i] = 1, float32(i)/8
	}
	src := formattest.Write(t, f, quant.Spec{Bits: 4, Group: 8, Zero: quant.Float, Scale: safetensors.BF16}, quant.Options{}, m, 16)
	if got := fmt.Sprintf("% x", src[formattest.Module+".weight_packed"].Data[:16]); got != "30 96 fc 52 b8 1e 74 da 85 fb 52 c9 3f 96 0d 73" {
		t.Error(got)
	}
	r, err := Open([]byte(`{"quant_method":"CPU_INT4","group_size":8}`))
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.Open(formattest.Module, src)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, formattest.Read(t, l, 32), m)
}
