//go:build unix

package linalg

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// measure runs f, which does so many multiply-adds, with one thread and with two. On a machine that does other work, too,
// those by the second of the processor say more than those by the second of the clock.
func measure(b *testing.B, name string, work int, f func(b *testing.B, threads int)) {
	used := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
			before := used()
			for b.Loop() {
				f(b, threads)
			}
			done := float64(work) * float64(b.N) / 1e9
			b.ReportMetric(done/b.Elapsed().Seconds(), "GMAC/s")
			b.ReportMetric(done/(used()-before).Seconds(), "GMAC/cpu-s")
		})
	}
}

func BenchmarkGemm(b *testing.B) {
	benchmarkGemm(b, "float32", Gemm32)
	benchmarkGemm(b, "float64", Gemm64)
}

func benchmarkGemm[T float32 | float64](b *testing.B, name string, run product[T]) {
	const n = 1024
	r := rand.New(rand.NewPCG(2, 2))
	x, y, z := numbers[T](r, n*n, false), numbers[T](r, n*n, false), numbers[T](r, n*n, false)
	measure(b, fmt.Sprintf("%s/n=%d", name, n), n*n*n, func(_ *testing.B, threads int) {
		run(Add, z, n, x, n, y, n, n, n, n, threads)
	})
}

func BenchmarkMoment(b *testing.B) {
	const rows = 8192
	for _, k := range []int{576, 1536} {
		x := numbers[float32](rand.New(rand.NewPCG(2, 2)), rows*k, false)
		raw, m16, m32 := bytesOfBF16(x), NewMoment(k), NewMoment32(k)
		measure(b, fmt.Sprintf("bfloat16/k=%d", k), rows*k*(k+1)/2, func(_ *testing.B, threads int) {
			m16.AddBF16(raw, 2*k, rows, nil, threads)
		})
		measure(b, fmt.Sprintf("float32/k=%d", k), rows*k*(k+1)/2, func(_ *testing.B, threads int) {
			m32.Add32(x, k, rows, nil, threads)
		})
	}
}

func BenchmarkCholesky(b *testing.B) {
	for _, n := range []int{1536, 4096} {
		a, l := definite(rand.New(rand.NewPCG(7, 7)), n), make([]float64, n*n)
		measure(b, fmt.Sprintf("n=%d", n), n*n*n/6, func(b *testing.B, threads int) {
			copy(l, a)
			if err := Cholesky(l, n, threads); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkBackward(b *testing.B) {
	const n = 1536
	a, h := definite(rand.New(rand.NewPCG(7, 7)), n), make([]float64, n*n)
	measure(b, fmt.Sprintf("n=%d", n), n*n*n/6, func(b *testing.B, threads int) {
		copy(h, a)
		if _, _, err := Backward(h, n, threads); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkSolve(b *testing.B) {
	const n = 1536
	r := rand.New(rand.NewPCG(9, 9))
	l, x, y := definite(r, n), numbers[float64](r, n*n, false), make([]float64, n*n)
	if err := Cholesky(l, n, 2); err != nil {
		b.Fatal(err)
	}
	measure(b, fmt.Sprintf("n=%d/r=%d", n, n), n*n*n, func(_ *testing.B, threads int) {
		copy(y, x)
		Solve(l, n, y, n, n, threads)
	})
}
