// The body of a product on tiles, for DOT, for the bytes of a step of activations, 1<<STEP, and for what is done with a block's sums:
// of bfloat16 what PAIRS has, else PREPARE once a token and CORRECT for each half of its row, to bring exact sums to float32; with FUSED,
// biases are taken off by one operation where that rounds as two would. The blocks of 32 tokens come one after the other; after the dot products of each, the sums of the one before are scaled.
//
// Registers of the dot products: AX 128, BX the second half of the weights' tile, CX Stride, DX and DI activations, SI codes, R9 and
// R10 blocks, R11 bytes of a block's activations that are left, R12 those of a tile, R13 tokens. Of scaling: BX sums, DX y, R11
// tokens, R14 their scales, R15 their sums.

	MOVQ a+0(FP), R8
	MOVQ $128, AX
	MOVQ STRIDE, CX
	MOVQ $0, LASTTOKENS
	MOVQ FIRSTX, BX
	MOVQ BX, X
	MOVQ FIRSTY, BX
	MOVQ BX, Y
	MOVQ ALLTOKENS, BX
	MOVQ BX, TOKENS
	MOVQ FIRSTXSCALES, BX
	MOVQ BX, XSCALES
	MOVQ FIRSTSUMS, BX
	MOVQ BX, SUMS
	MOVQ EXACT, BX
	MOVQ BX, LAST
	ADDQ $4096, BX
	MOVQ BX, NEXT
	XORL R12, R12

chunk:
	MOVQ    TOKENS, R13
	MOVQ    $32, R11
	CMPQ    R13, R11
	CMOVQGT R11, R13
	TESTQ   R13, R13
	JZ      scale
	MOVQ    CODES, SI
	MOVQ    X, DI
	MOVQ    BLOCKS, R9
	MOVQ    COUNT, R10
	MOVQ    $0, PLACE
	MOVQ    $0, XPLACE

block:
	MOVLQSX 4(R9), BX
	ANDQ    HEAD, BX
	ADDQ    BX, SI
	MOVLQSX (R9), R11
	SHLQ    $STEP, R11
	MOVQ    $64, BX
	CMPQ    R11, BX
	CMOVQLT R11, BX
	CMPQ    BX, R12
	JNE     configure
	CMPQ    R13, CONFIGURED
	JEQ     configured

configure:
	MOVQ BX, R12
	CONFIGURE

configured:
	SECOND
	TILEZERO(0)
	TILEZERO(1)
	CMPQ R13, $16
	JLE  dots
	TILEZERO(2)
	TILEZERO(3)

dots:
	LEAQ 64(SI), BX
	TILELOADD(4, RDI, RCX)
	TILELOADD(6, RSI, RAX)
	TILELOADD(7, RBX, RAX)
	DOT(0, 4, 6)
	DOT(1, 4, 7)
	CMPQ R13, $16
	JLE  dotted
	TILELOADD(5, RDX, RCX)
	DOT(2, 5, 6)
	DOT(3, 5, 7)

dotted:
	ADDQ R12, DI
	ADDQ R12, DX
	MOVQ R12, BX
	SHLQ $5, BX
	ADDQ BX, SI
	SUBQ R12, R11
	CMPQ R11, R12
	JGE  dots
	MOVQ NEXT, BX
	TILESTORED(0, RBX, RAX)
	ADDQ $64, BX
	TILESTORED(1, RBX, RAX)
	CMPQ R13, $16
	JLE  stored
	ADDQ $(2048-64), BX
	TILESTORED(2, RBX, RAX)
	ADDQ $64, BX
	TILESTORED(3, RBX, RAX)

stored:
	TESTQ R11, R11
	JZ    scale

	// The last columns of the block, fewer than a tile has: the sums go on in narrower tiles.
	MOVQ R11, R12
	CONFIGURE
	SECOND
	MOVQ NEXT, BX
	TILELOADD(0, RBX, RAX)
	ADDQ $64, BX
	TILELOADD(1, RBX, RAX)
	CMPQ R13, $16
	JLE  dots
	ADDQ $(2048-64), BX
	TILELOADD(2, RBX, RAX)
	ADDQ $64, BX
	TILELOADD(3, RBX, RAX)
	JMP  dots

scale:
	MOVQ      LASTTOKENS, R11
	TESTQ     R11, R11
	JZ        scaled
	MOVQ      LAST, BX
	MOVQ      LASTY, DX
	MOVQ      LASTXSCALES, R14
	KMOVW     LASTMASK, K1
	MOVQ      LASTSCALES, R15
	VMOVUPS   (R15), Z16
	VMOVUPS   64(R15), Z17
	MOVQ      LASTZEROS, R15

#ifdef PAIRS
	VCVTDQ2PS (R15), Z18
	VCVTDQ2PS 64(R15), Z19
	MOVQ      LASTBIASES, R15
	VMOVUPS   (R15), Z20
	VMOVUPS   64(R15), Z21

pair:
	VBROADCASTSS (R14), Z4
	VMOVUPS      (BX), Z0
	VMOVUPS      64(BX), Z1
	VMOVUPS.Z    (DX), K1, Z2
	VMOVUPS.Z    64(DX), K1, Z3
	VFMADD231PS  Z18, Z4, Z0
	VFMADD231PS  Z19, Z4, Z1
	VFMADD231PS  Z16, Z0, Z2
	VFMADD231PS  Z17, Z1, Z3
	VFMADD231PS  Z20, Z4, Z2
	VFMADD231PS  Z21, Z4, Z3
	VMOVUPS      Z2, (DX)
	VMOVUPS      Z3, 64(DX)
	ADDQ         $128, BX
	ADDQ         $128, DX
	ADDQ         $4, R14
	DECQ         R11
	JNZ          pair

#else
	VMOVDQU32 (R15), Z18
	VMOVDQU32 64(R15), Z19
	MOVQ      LASTBIASES, R15
	TESTQ     R15, R15
	JNZ       biased
	MOVQ      LASTSUMS, R15

plain:
	VBROADCASTSS (R14), Z4
	PREPARE
	CORRECT(Z18, (BX), Z0)
	CORRECT(Z19, 64(BX), Z1)
	VMULPS       Z16, Z0, Z0
	VMULPS       Z17, Z1, Z1
	VMULPS       Z4, Z0, Z0
	VMULPS       Z4, Z1, Z1
	ADDTO(Z0, (DX), Z2)
	ADDTO(Z1, 64(DX), Z3)
	ADDQ         $128, BX
	ADDQ         $128, DX
	ADDQ         $4, R14
	ADDQ         $4, R15
	DECQ         R11
	JNZ          plain
	JMP          scaled

biased:
	VMOVUPS (R15), Z20
	VMOVUPS 64(R15), Z21
	MOVQ    LASTSUMS, R15

#ifdef FUSED

	// The sums of activations as float32, of the tokens that there are.
	MOVL         $-1, BX
	BZHIL        R11, BX, BX
	KMOVD        BX, K2
	KSHIFTRD     $16, K2, K3
	VMOVDQU32.Z  (R15), K2, Z6
	VMOVDQU32.Z  64(R15), K3, Z7
	VPABSD       Z6, Z8
	VPABSD       Z7, Z9
	VCVTDQ2PS    Z6, Z6
	VCVTDQ2PS    Z7, Z7
	VPMAXUD      Z8, Z9, Z8
	VMOVUPS      Z6, TOTALS
	VMOVUPS      Z7, 64+TOTALS

	// Are biases times those exact? They are of at most 8 bits, or of 11 where no sum has more than 13; and below 2^100.
	MOVL         $0x2000, BX
	VPBROADCASTD BX, Z9
	VPCMPUD      $6, Z9, Z8, K4
	MOVL         $0x1fff, BX
	MOVL         $0xffff, DX
	KORTESTW     K4, K4
	CMOVLNE      DX, BX
	VPBROADCASTD BX, Z9
	VPORD        Z20, Z21, Z8
	VPTESTMD     Z9, Z8, K4
	MOVL         $0x7fffffff, BX
	VPBROADCASTD BX, Z9
	VPANDD       Z20, Z9, Z8
	VPANDD       Z21, Z9, Z9
	VPMAXUD      Z8, Z9, Z8
	MOVL         $0x71800000, BX
	VPBROADCASTD BX, Z9
	VPCMPUD      $5, Z9, Z8, K5
	MOVQ         LAST, BX
	MOVQ         LASTY, DX
	KORTESTW     K4, K5
	JNE          bias
	LEAQ         TOTALS, R15

fused:
	VBROADCASTSS (R14), Z4
	VBROADCASTSS (R15), Z5
	CORRECT(Z18, (BX), Z0)
	CORRECT(Z19, 64(BX), Z1)
	VMULPS       Z16, Z0, Z0
	VMULPS       Z17, Z1, Z1
	VFNMADD231PS Z20, Z5, Z0
	VFNMADD231PS Z21, Z5, Z1
	VMULPS       Z4, Z0, Z0
	VMULPS       Z4, Z1, Z1
	ADDTO(Z0, (DX), Z2)
	ADDTO(Z1, 64(DX), Z3)
	ADDQ         $128, BX
	ADDQ         $128, DX
	ADDQ         $4, R14
	ADDQ         $4, R15
	DECQ         R11
	JNZ          fused
	JMP          scaled

#endif
bias:
	VBROADCASTSS   (R14), Z4
	PREPARE
	CORRECT(Z18, (BX), Z0)
	CORRECT(Z19, 64(BX), Z1)
	VCVTDQ2PS.BCST (R15), Z6
	VMULPS         Z16, Z0, Z0
	VMULPS         Z17, Z1, Z1
	VMULPS         Z20, Z6, Z7
	VMULPS         Z21, Z6, Z8
	VSUBPS         Z7, Z0, Z0
	VSUBPS         Z8, Z1, Z1
	VMULPS         Z4, Z0, Z0
	VMULPS         Z4, Z1, Z1
	ADDTO(Z0, (DX), Z2)
	ADDTO(Z1, 64(DX), Z3)
	ADDQ           $128, BX
	ADDQ           $128, DX
	ADDQ           $4, R14
	ADDQ           $4, R15
	DECQ           R11
	JNZ            bias

#endif
scaled:
	MOVQ  R13, LASTTOKENS
	TESTQ R13, R13
	JZ    exit

	// The sums that were just made are the next to be scaled.
	MOVQ    LAST, BX
	MOVQ    NEXT, DX
	MOVQ    DX, LAST
	MOVQ    BX, NEXT
	MOVQ    Y, BX
	MOVQ    BX, LASTY
	MOVQ    PLACE, DX
	MOVQ    SCALES, BX
	ADDQ    DX, BX
	MOVQ    BX, LASTSCALES
	MOVQ    ZEROS, BX
	ADDQ    DX, BX
	MOVQ    BX, LASTZEROS
	MOVQ    BIASES, BX
	LEAQ    (BX)(DX*1), R14
	TESTQ   BX, BX
	CMOVQEQ BX, R14
	MOVQ    R14, LASTBIASES
	XORL    R14, R14
	MOVL    $0xffff, R15
	TESTQ   DX, DX
	CMOVQEQ FRESH, R14
	TESTQ   R14, R14
	MOVL    $0, R14
	CMOVQEQ R15, R14
	MOVQ    R14, LASTMASK
	ADDQ    $128, DX
	MOVQ    DX, PLACE
	MOVQ    XPLACE, DX
	MOVQ    XSCALES, BX
	ADDQ    DX, BX
	MOVQ    BX, LASTXSCALES
	MOVQ    SUMS, BX
	ADDQ    DX, BX
	MOVQ    BX, LASTSUMS
	ADDQ    ROW, DX
	MOVQ    DX, XPLACE
	ADDQ    $8, R9
	DECQ    R10
	JNZ     block

	// The next tokens.
	SUBQ R13, TOKENS
	MOVQ CX, DX
	SHLQ $5, DX
	ADDQ DX, X
	ADDQ $4096, Y
	ADDQ $128, XSCALES
	ADDQ $128, SUMS
	JMP  chunk

exit:
	TILERELEASE
	VZEROUPPER
	RET
