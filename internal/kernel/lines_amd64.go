//go:build !purego

package kernel

//go:generate go -C _asm run ./lines -out ../lines_amd64.s -stubs ../lines_stubs_amd64.go -pkg kernel

var (
	linesAVX2   = lines{sumLinesAVX2}
	linesAVX512 = lines{sumLinesAVX512}
)
