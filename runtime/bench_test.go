package runtime

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nibble/build"
	"nibble/demo"
	"nibble/hf"
)

// demoModel loads the built-in model: hidden size 256, 4 layers, vocabulary 1024.
func demoModel(t testing.TB, mode Mode, threads int) *Model {
	t.Helper()
	f, err := hf.NewFolder("", demo.FS(), "")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build.Open(f, hf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close() })
	m, err := Load(b, Config{Mode: mode, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// BenchmarkPrefill runs a prompt of 512 tokens in one call.
func BenchmarkPrefill(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			m := demoModel(b, F32, threads)
			s, err := m.NewSession(512, KVF32)
			if err != nil {
				b.Fatal(err)
			}
			tokens := make([]int32, 512)
			for i := range tokens {
				tokens[i] = int32(i * 7 % m.Width())
			}
			for b.Loop() {
				s.Reset()
				if err := m.Forward([]Input{{s, tokens, false}}, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(tokens))/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

// BenchmarkDecode runs single tokens behind a prompt of 64, with every type of cache.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name    string
		kv      KV
		threads int
	}{{"f32", KVF32, 1}, {"f32", KVF32, 2}, {"bf16", KVBF16, 1}, {"int8", KVInt8, 1}} {
		b.Run(fmt.Sprintf("kv=%s/threads=%d", c.name, c.threads), func(b *testing.B) {
			m := demoModel(b, F32, c.threads)
			s, err := m.NewSession(0, c.kv)
			if err != nil {
				b.Fatal(err)
			}
			in := []Input{{s, make([]int32, 64), false}}
			emit := func(int, int, []float32) {}
			for b.Loop() {
				if s.Len() == 0 || s.Len() == 256 {
					s.Reset()
					in[0].Tokens = in[0].Tokens[:64]
					if err := m.Forward(in, emit); err != nil {
						b.Fatal(err)
					}
					in[0].Tokens = in[0].Tokens[:1]
				}
				if err := m.Forward(in, emit); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

// Threads that meet at a barrier, again and again: the time of one meeting, and its median over runs of meetings, which a
// processor that is taken away for a while does not change.
func BenchmarkBarrier(b *testing.B) {
	const meetings = 64
	for _, size := range []int{2, 4} {
		b.Run(fmt.Sprintf("threads=%d", size), func(b *testing.B) {
			t := startTeam(size)
			defer t.close()
			var runs []time.Duration
			b.ResetTimer()
			t.run(func(tid int) {
				for n := 0; n < b.N; n += meetings {
					start := time.Now()
					for range meetings {
						t.barrier()
					}
					if tid == 0 {
						runs = append(runs, time.Since(start))
					}
				}
			})
			slices.Sort(runs)
			b.ReportMetric(float64(runs[len(runs)/2].Nanoseconds())/meetings, "ns/median")
		})
	}
}
