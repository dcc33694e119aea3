//go:build !purego

package kernel

//go:generate go -C _asm run ./kblock -set avx2 -out ../kblock_avx2_amd64.s -pkg kernel
//go:generate go -C _asm run ./kblock -set avx512 -out ../kblock_avx512_amd64.s -pkg kernel
//go:generate go -C _asm run ./kblock -set vnni -out ../kblock_vnni_amd64.s -pkg kernel

var (
	ksetsAVX2 = ksets{
		Q4K:   {one: q4kOneAVX2, tiles: []tile{{6, q4kx6AVX2}}},
		Q5K:   {one: q5kOneAVX2, tiles: []tile{{6, q5kx6AVX2}}, unpack: q5kUnpackAVX2},
		Q6K:   {one: q6kOneAVX2, tiles: []tile{{6, q6kx6AVX2}}, unpack: q6kUnpackAVX2},
		IQ4XS: {one: iq4xsOneAVX2, tiles: []tile{{6, iq4xsx6AVX2}}, unpack: iq4xsUnpackAVX2},
	}
	ksetsAVX512 = ksets{
		Q4K:   {one: q4kOneAVX512, tiles: []tile{{2, q4kx2AVX512}, {4, q4kx4AVX512}}, unpack: q4kUnpackAVX512},
		Q5K:   {one: q5kOneAVX512, tiles: []tile{{2, q4kx2AVX512}, {4, q4kx4AVX512}}, unpack: q5kUnpackAVX512},
		Q6K:   {one: q6kOneAVX512, tiles: []tile{{2, q6kx2AVX512}, {4, q6kx4AVX512}}, unpack: q6kUnpackAVX512},
		IQ4XS: {one: iq4xsOneAVX512, tiles: []tile{{2, iq4xsx2AVX512}, {4, iq4xsx4AVX512}}, unpack: iq4xsUnpackAVX512},
	}
	ksetsVNNI = ksets{
		Q4K:   {one: q4kOneVNNI, tiles: []tile{{2, q4kx2VNNI}, {4, q4kx4VNNI}, {8, q4kx8VNNI}}, unpack: q4kUnpackAVX512},
		Q5K:   {one: q5kOneVNNI, tiles: []tile{{2, q4kx2VNNI}, {4, q4kx4VNNI}, {8, q4kx8VNNI}}, unpack: q5kUnpackAVX512},
		Q6K:   {one: q6kOneVNNI, tiles: []tile{{2, q6kx2VNNI}, {4, q6kx4VNNI}, {8, q6kx8VNNI}}, unpack: q6kUnpackAVX512},
		IQ4XS: {one: iq4xsOneVNNI, tiles: []tile{{2, iq4xsx2VNNI}, {4, iq4xsx4VNNI}, {8, iq4xsx8VNNI}}, unpack: iq4xsUnpackAVX512},
	}
)

// These are KBlocks for one token; kblocksOne is the specification.

//go:noescape
func q4kOneAVX2(p *Product)

//go:noescape
func q5kOneAVX2(p *Product)

//go:noescape
func q6kOneAVX2(p *Product)

//go:noescape
func iq4xsOneAVX2(p *Product)

//go:noescape
func q4kOneAVX512(p *Product)

//go:noescape
func q5kOneAVX512(p *Product)

//go:noescape
func q6kOneAVX512(p *Product)

//go:noescape
func iq4xsOneAVX512(p *Product)

//go:noescape
func q4kOneVNNI(p *Product)

//go:noescape
func q5kOneVNNI(p *Product)

//go:noescape
func q6kOneVNNI(p *Product)

//go:noescape
func iq4xsOneVNNI(p *Product)

// These are KBlocks for the number of tokens behind the x, and codes of 8 bits but for q4kx6AVX2. Q5K and Q4K are alike then in AVX-512.

//go:noescape
func q4kx6AVX2(p *Product)

//go:noescape
func q5kx6AVX2(p *Product)

//go:noescape
func q6kx6AVX2(p *Product)

//go:noescape
func iq4xsx6AVX2(p *Product)

//go:noescape
func q4kx2AVX512(p *Product)

//go:noescape
func q4kx4AVX512(p *Product)

//go:noescape
func q6kx2AVX512(p *Product)

//go:noescape
func q6kx4AVX512(p *Product)

//go:noescape
func iq4xsx2AVX512(p *Product)

//go:noescape
func iq4xsx4AVX512(p *Product)

//go:noescape
func q4kx2VNNI(p *Product)

//go:noescape
func q4kx4VNNI(p *Product)

//go:noescape
func q4kx8VNNI(p *Product)

//go:noescape
func q6kx2VNNI(p *Product)

//go:noescape
func q6kx4VNNI(p *Product)

//go:noescape
func q6kx8VNNI(p *Product)

//go:noescape
func iq4xsx2VNNI(p *Product)

//go:noescape
func iq4xsx4VNNI(p *Product)

//go:noescape
func iq4xsx8VNNI(p *Product)

// These make records with codes of 8 bits.

//go:noescape
func q5kUnpackAVX2(dst, src []byte)

//go:noescape
func q6kUnpackAVX2(dst, src []byte)

//go:noescape
func iq4xsUnpackAVX2(dst, src []byte)

//go:noescape
func q4kUnpackAVX512(dst, src []byte)

//go:noescape
func q5kUnpackAVX512(dst, src []byte)

//go:noescape
func q6kUnpackAVX512(dst, src []byte)

//go:noescape
func iq4xsUnpackAVX512(dst, src []byte)
