//go:build !purego

#include "textflag.h"
#include "amx_amd64.h"

// Fields of tileArgs, at R8.
#define CODES 0(R8)
#define FIRSTX 8(R8)
#define STRIDE 16(R8)
#define FIRSTY 24(R8)
#define ALLTOKENS 32(R8)
#define BLOCKS 40(R8)
#define COUNT 48(R8)
#define SCALES 56(R8)
#define ZEROS 64(R8)
#define BIASES 72(R8)
#define FIRSTXSCALES 80(R8)
#define FIRSTSUMS 88(R8)
#define ROW 96(R8)
#define FRESH 104(R8)
#define EXACT 112(R8)
#define CONFIG 120(R8)
#define HEAD 128(R8)

// What is kept there: the activations, results and tokens to come; their scales and sums; the exact sums being scaled and being made; the
// tokens of the configuration; the places of the block among scales and among those of tokens; all that belongs to the block that
// is being scaled; and sums as float32.
#define X 136(R8)
#define Y 144(R8)
#define TOKENS 152(R8)
#define XSCALES 160(R8)
#define SUMS 168(R8)
#define LAST 176(R8)
#define NEXT 184(R8)
#define CONFIGURED 192(R8)
#define PLACE 200(R8)
#define XPLACE 208(R8)
#define LASTTOKENS 216(R8)
#define LASTY 224(R8)
#define LASTSCALES 232(R8)
#define LASTZEROS 240(R8)
#define LASTBIASES 248(R8)
#define LASTXSCALES 256(R8)
#define LASTSUMS 264(R8)
#define LASTMASK 272(R8)
#define TOTALS 280(R8)

// CONFIGURE makes tiles for R12 bytes of activations and R13 tokens: 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. What
// holds tokens from the seventeenth on is not there if there are none. Uses BX, DX, R14, R15.
#define CONFIGURE \
	MOVQ CONFIG, BX; \
	MOVQ R13, R14; \
	MOVQ $16, R15; \
	CMPQ R14, R15; \
	CMOVQGT R15, R14; \
	MOVQ R13, R15; \
	SUBQ R14, R15; \
	MOVQ $1, (BX); \
	MOVL $0x00400040, 16(BX); \
	MOVW R12, 24(BX); \
	MOVL $0x00400040, 28(BX); \
	MOVB R14, 48(BX); \
	MOVB R14, 49(BX); \
	MOVB R15, 50(BX); \
	MOVB R15, 51(BX); \
	MOVB R14, 52(BX); \
	MOVB R15, 53(BX); \
	MOVQ R12, DX; \
	SHRQ $2, DX; \
	MOVB DX, 54(BX); \
	MOVB DX, 55(BX); \
	MOVL $0x00400040, R14; \
	XORL DX, DX; \
	TESTQ R15, R15; \
	CMOVQEQ R15, R14; \
	CMOVQNE R12, DX; \
	MOVL R14, 20(BX); \
	MOVW DX, 26(BX); \
	MOVQ R13, CONFIGURED; \
	LDTILECFG(RBX)

// SECOND is where the activations of the seventeenth token begin.
#define SECOND \
	MOVQ CX, DX; \
	SHLQ $4, DX; \
	ADDQ DI, DX

// ADDTO adds v to what y has, or to zero.
#define ADDTO(v, at, t) \
	VMOVUPS.Z at, K1, t; \
	VADDPS t, v, v; \
	VMOVUPS v, at

// func tileSigned(a *tileArgs)
TEXT ·tileSigned(SB), NOSPLIT, $0-8
#define DOT TDPBSSD
#define STEP 3
#define FUSED
#define PREPARE
#define CORRECT(zeros, sums, half) VCVTDQ2PS sums, half
#include "amx_body_amd64.h"
#undef DOT
#undef STEP
#undef FUSED
#undef CORRECT
#undef PREPARE

// func tileUnsigned(a *tileArgs)
TEXT ·tileUnsigned(SB), NOSPLIT, $0-8
#define DOT TDPBSUD
#define STEP 3
#define PREPARE VPBROADCASTD (R15), Z5
#define CORRECT(zeros, sums, half) \
	VMOVDQU32 sums, half; \
	VPDPWSSD zeros, Z5, half; \
	VCVTDQ2PS half, half
#include "amx_body_amd64.h"
#undef DOT
#undef STEP
#undef CORRECT
#undef PREPARE

// func tilePairs(a *tileArgs)
TEXT ·tilePairs(SB), NOSPLIT, $0-8
#define DOT TDPBF16PS
#define STEP 4
#define PAIRS
#include "amx_body_amd64.h"
#undef DOT
#undef STEP
#undef PAIRS

// func peakInt8Tiles(a *tileArgs, rounds int)
TEXT ·peakInt8Tiles(SB), NOSPLIT, $0-16
#define DOT TDPBSSD
#include "amx_peak_amd64.h"
#undef DOT

// func peakBF16Tiles(a *tileArgs, rounds int)
TEXT ·peakBF16Tiles(SB), NOSPLIT, $0-16
#define DOT TDPBF16PS
#include "amx_peak_amd64.h"
#undef DOT

// func unpackSigned(dst, src, zeros *byte, steps int)
TEXT ·unpackSigned(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         zeros+16(FP), BX
	MOVQ         steps+24(FP), CX
	MOVL         $0x0f0f0f0f, AX
	VPBROADCASTD AX, Z0
	MOVL         $0x01010101, AX
	VPBROADCASTD AX, Z1
	VPMOVZXBD    (BX), Z2
	VPMULLD      Z1, Z2, Z2
	VPMOVZXBD    16(BX), Z3
	VPMULLD      Z1, Z3, Z3

unpack:
	VMOVDQU32 (SI), Z4
	VMOVDQU32 64(SI), Z5
	VPANDD    Z0, Z4, Z6
	VPANDD    Z0, Z5, Z7
	VPSRLD    $4, Z4, Z4
	VPSRLD    $4, Z5, Z5
	VPANDD    Z0, Z4, Z4
	VPANDD    Z0, Z5, Z5
	VPSUBB    Z2, Z6, Z6
	VPSUBB    Z3, Z7, Z7
	VPSUBB    Z2, Z4, Z4
	VPSUBB    Z3, Z5, Z5
	VMOVDQU32 Z6, (DI)
	VMOVDQU32 Z7, 64(DI)
	VMOVDQU32 Z4, 128(DI)
	VMOVDQU32 Z5, 192(DI)
	ADDQ      $128, SI
	ADDQ      $256, DI
	DECQ      CX
	JNZ       unpack
	VZEROUPPER
	RET

// func widenFloat32(dst *float32, src *byte)
TEXT ·widenFloat32(SB), NOSPLIT, $0-16
	MOVQ      dst+0(FP), DI
	MOVQ      src+8(FP), SI
	VMOVDQU32 (SI), Z0
	VMOVDQU32 64(SI), Z1
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VZEROUPPER
	RET

// func widenFloat16(dst *float32, src *byte)
TEXT ·widenFloat16(SB), NOSPLIT, $0-16
	MOVQ      dst+0(FP), DI
	MOVQ      src+8(FP), SI
	VCVTPH2PS (SI), Z0
	VCVTPH2PS 32(SI), Z1
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VZEROUPPER
	RET

// func widenBFloat16(dst *float32, src *byte)
TEXT ·widenBFloat16(SB), NOSPLIT, $0-16
	MOVQ      dst+0(FP), DI
	MOVQ      src+8(FP), SI
	VPMOVZXWD (SI), Z0
	VPMOVZXWD 32(SI), Z1
	VPSLLD    $16, Z0, Z0
	VPSLLD    $16, Z1, Z1
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VZEROUPPER
	RET

// func widenBytes(dst *int32, src *[32]byte)
TEXT ·widenBytes(SB), NOSPLIT, $0-16
	MOVQ      dst+0(FP), DI
	MOVQ      src+8(FP), SI
	VPMOVZXBD (SI), Z0
	VPMOVZXBD 16(SI), Z1
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VZEROUPPER
	RET
