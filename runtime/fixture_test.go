package runtime

import (
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"nibble/build"
	"nibble/hf"
)

const goldenDir = "testdata/golden"

// golden is a fixture; see testdata/golden/README.md.
type golden struct {
	Name       string
	Tokens     []int32
	Shape      [2]int  `json:"logits_shape"`
	Noise      float64 `json:"max_abs_f32_minus_f64"`
	Atol       float64 `json:"suggested_atol"`
	Greedy     []int32
	SumLogprob float64 `json:"sum_logprob"`
	Rope       map[string]struct {
		InvFreq []float32 `json:"inv_freq"`
		Factor  float32   `json:"attention_factor"`
	}
	Router map[string]struct {
		Logits  []float64 `json:"last_token_logits"`
		Experts []int     `json:"last_token_experts"`
	}
	Hidden map[string]struct {
		Norm  float64   `json:"l2"`
		Last  float64   `json:"l2_last_token"`
		First []float64 `json:"last_token_first8"`
		Noise float64   `json:"max_abs_f32_minus_f64"`
	}
	ValuesOf  string `json:"values_of"`
	WeightsOf string `json:"weights_of"`

	Logits [][]float32 // [tokens, vocab]
}

// variants lists the fixtures; with distinct only one of those that are the same model written differently.
func variants(t testing.TB, distinct bool) []*golden {
	t.Helper()
	entries, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	var list []*golden
	for _, e := range entries {
		if e.IsDir() {
			if g := readGolden(t, e.Name()); !distinct || g.ValuesOf == "" {
				list = append(list, g)
			}
		}
	}
	if len(list) < 26 {
		t.Fatalf("%d fixtures", len(list))
	}
	return list
}

func readGolden(t testing.TB, name string) *golden {
	t.Helper()
	var g golden
	if err := json.Unmarshal(readFile(t, path.Join(goldenDir, name, "golden.json")), &g); err != nil {
		t.Fatal(err)
	}
	if g.ValuesOf != "" {
		weights := g.WeightsOf
		same := g.ValuesOf
		g = *readGolden(t, same)
		g.ValuesOf, g.WeightsOf = same, weights
	} else {
		raw := readFile(t, path.Join(goldenDir, name, "logits.f32"))
		if len(raw) != 4*g.Shape[0]*g.Shape[1] || len(g.Tokens) != g.Shape[0] {
			t.Fatalf("%s: %d bytes of logits for %d tokens", name, len(raw), len(g.Tokens))
		}
		for range g.Tokens {
			row := make([]float32, g.Shape[1])
			for i := range row {
				row[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			}
			g.Logits = append(g.Logits, row)
			raw = raw[4*len(row):]
		}
	}
	g.Name = name
	return &g
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// files is the fixture's model folder.
func (g *golden) files(t testing.TB) fstest.MapFS {
	t.Helper()
	dir := path.Join(goldenDir, g.Name)
	files := fstest.MapFS{"config.json": {Data: readFile(t, path.Join(dir, "config.json"))}}
	if g.WeightsOf != "" {
		dir = path.Join(goldenDir, g.WeightsOf)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "model") {
			files[e.Name()] = &fstest.MapFile{Data: readFile(t, path.Join(dir, e.Name()))}
		}
	}
	return files
}

func (g *golden) load(t testing.TB, mode Mode, threads int) *Model {
	t.Helper()
	return load(t, open(t, g.files(t)), mode, threads)
}

// open opens a model folder.
func open(t testing.TB, files fs.FS) *build.Build {
	t.Helper()
	b, err := tryOpen(t, files)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryOpen(t testing.TB, files fs.FS) (*build.Build, error) {
	t.Helper()
	f, err := hf.NewFolder("", files, "")
	if err != nil {
		return nil, err
	}
	b, err := build.Open(f, hf.Options{})
	if err == nil {
		t.Cleanup(func() { b.Set.Close() })
	}
	return b, err
}

func load(t testing.TB, b *build.Build, mode Mode, threads int) *Model {
	t.Helper()
	m, err := Load(b, Config{Mode: mode, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func newSession(t testing.TB, m *Model, context int, kv KV) *Session {
	t.Helper()
	s, err := m.NewSession(context, kv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// forward runs tokens and returns the logits of each.
func forward(t testing.TB, m *Model, s *Session, tokens []int32) [][]float32 {
	t.Helper()
	var all [][]float32
	err := m.Forward([]Input{{s, tokens, true}}, func(input, i int, logits []float32) {
		if input != 0 || i != len(all) {
			t.Errorf("logits of token %d of input %d, want token %d", i, input, len(all))
		}
		all = append(all, slices.Clone(logits))
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run returns the logits of a sequence of its own.
func run(t testing.TB, m *Model, tokens []int32, kv KV) [][]float32 {
	t.Helper()
	return forward(t, m, newSession(t, m, len(tokens), kv), tokens)
}

// same demands equal bits from token first on.
func same(t testing.TB, what string, got, want [][]float32, first int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: logits of %d tokens, want %d", what, len(got), len(want))
	}
	for i := first; i < len(want); i++ {
		for j, v := range want[i] {
			if math.Float32bits(got[i][j]) != math.Float32bits(v) {
				t.Errorf("%s: token %d, logit %d is %v, want %v", what, i, j, got[i][j], v)
				return
			}
		}
	}
}

// distance returns max |a−b|; a NaN gives +Inf.
func distance(a, b [][]float32) float64 {
	var worst float64
	for i := range b {
		for j, v := range b[i] {
			d := math.Abs(float64(a[i][j]) - float64(v))
			if math.IsNaN(d) {
				return math.Inf(1)
			}
			worst = max(worst, d)
		}
	}
	return worst
}

// relative returns the root mean square of a−b over that of b.
func relative(a, b [][]float32) float64 {
	var diff, norm float64
	for i := range b {
		for j, v := range b[i] {
			d := float64(a[i][j]) - float64(v)
			diff += d * d
			norm += float64(v) * float64(v)
		}
	}
	return math.Sqrt(diff / norm)
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// startTeam starts threads that are not pinned, which cannot fail.
func startTeam(size int) *team {
	t, err := newTeam(size, nil)
	if err != nil {
		panic(err)
	}
	return t
}
