// Package block encodes and decodes the element types of GGUF: floats, and blocks of weights that share scales.
//
// A row is a run of blocks. All numbers are little-endian; d, m and dmin are float16 unless said otherwise. A field of n
// codes of b bits is noted n×b. w[i] is weight i of the block, q[i] its code, i counts from 0.
//
// # Blocks of 32
//
//	Q8_0    34  d, 32×8 signed                              w = d·q
//	Q4_0    18  d, 32×4                                     w = d·(q − 8)
//	Q4_1    20  d, m, 32×4                                  w = d·q + m
//	Q5_0    22  d, 32×1 high bits, 32×4 low bits            w = d·(q − 16)
//	Q5_1    24  d, m, 32×1 high bits, 32×4 low bits         w = d·q + m
//	IQ4_NL  18  d, 32×4                                     w = d·level[q]
//	MXFP4   17  e (a byte), 32×4                            w = 2^(e−128)·twice[q]
//
// Byte i of the 16 bytes of 4-bit codes has q[i] in its low and q[i+16] in its high half. High bit i is bit i of a 32-bit
// word. The levels are −127 −104 −83 −65 −49 −35 −22 −10 1 13 25 38 53 69 89 113. twice[q] is twice the value of a
// 4-bit float: 0 1 2 3 4 6 8 12 and, from 8 on, the same negated (the zero is positive).
//
// # Blocks of 256
//
// They consist of sub-blocks of 16 or 32 weights, which have integer scales, and minimums, of their own.
//
//	Q2_K    84  16 bytes of scales, 256×2, d, dmin          w = d·sc·q − dmin·mn              16 sub-blocks
//	Q3_K   110  256×1 high bits, 256×2, 12 scales, d        w = d·(sc − 32)·(q − 4)           16
//	Q4_K   144  d, dmin, 12 scales, 256×4                   w = d·sc·q − dmin·mn               8
//	Q5_K   176  d, dmin, 12 scales, 256×1 high, 256×4 low   w = d·sc·q − dmin·mn               8
//	Q6_K   210  256×4 low, 256×2 high, 16 signed bytes, d   w = d·sc·(q − 32)                 16
//	IQ4_XS 136  d, 2 high and 4 low scales, 256×4           w = d·(sc − 32)·level[q]           8
//	Q8_K   292  d (float32), 256×8 signed, 16 int16 sums    w = d·q; a sum is of 16 codes      1
//	TQ1_0   54  256 base-3 digits, d                        w = d·(q − 1)                      1
//	TQ2_0   66  256×2, d                                    w = d·(q − 1)                      1
//
// Codes of 4 bits (Q4_K, Q5_K): of each 32 bytes, the low halves are 32 weights and the high halves the next 32; high bit
// j of byte i of Q5_K's 32 belongs to weight 32j + i. IQ4_XS: the same in runs of 16 bytes. Codes of 2 bits (Q2_K, Q3_K,
// TQ2_0): of each 32 bytes, bits 0 and 1 are 32 weights, bits 2 and 3 the next 32, and so on; high bits of Q3_K as those
// of Q5_K. Q6_K: of each 64 bytes, the low halves are 64 weights and the high halves the next 64; the two high bits lie
// like codes of 2 bits.
//
// Scales: a byte of Q2_K has sc in its low and mn in its high half. The 12 bytes of Q4_K and Q5_K hold sc[0..3] in the
// low 6 bits of bytes 0 to 3, mn[0..3] in those of bytes 4 to 7; of sc[j], j from 4 to 7, the low 4 bits are the low half
// of byte j+4 and the high 2 bits are the top bits of byte j−4; of mn[j], the low 4 bits are the high half of byte j+4
// and the high 2 bits are the top bits of byte j. The 12 bytes of Q3_K hold the low 4 bits of sc[j] in byte j mod 8, in
// the low half for j < 8, and the high 2 bits in byte 8 + j mod 4, at bit 2·(j/4). IQ4_XS: the low 4 bits in the halves of
// 4 bytes, the high 2 bits at bit 2j of a 16-bit word that comes before them.
//
// TQ1_0: 48 bytes of 5 digits each, 4 of 4 digits. A byte x with digits t0 (first) to t4 is ceil(256·T/243), T = ((((t0·3
// + t1)·3 + t2)·3 + t3)·3 + t4); digit n is the top of (x·3^n mod 256)·3/256. Byte i of the first 32 has weights 32n + i;
// byte i of the next 16 has 160 + 16n + i, and of the last 4 has 240 + 4n + i.
//
// # Other types
//
// F32, F16, BF16, F64 and integers are blocks of one element; only F32, F16 and BF16 are encoded and decoded. NVFP4: 64
// weights, 4 scales in unsigned 8-bit floats (4 bits of exponent, 3 of fraction), 4 runs of 8 bytes of codes as in MXFP4,
// the low halves before the high ones. IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S index codebooks of
// hundreds of vectors; their sizes are known here and their values are not. The same holds for Q1_0.
//
// # Arithmetic
//
// Decoding is float32, each product and sum rounded, in the order of the formulas (d·sc first). It gives the bits that
// the gguf package for Python gives, except for the payload of a NaN.
//
// Encoding without weights of Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 gives the bytes that package gives. All other encoding is a
// search for the block with the least Σ c·(ŵ − w)², c the weight of the column. Eight blocks or sub-blocks are searched side by side: what
// candidates leave of the weights is summed up in float32, one weight after the other, each product rounded; everything else is float64.
// So the same bytes come out on every machine.
package block
