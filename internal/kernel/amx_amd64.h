// The instructions of AMX, which the assembler does not know, as bytes: VEX (C4 E2, then ~vvvv and the prefix), opcode, ModRM,
// and SIB where memory is meant. Tiles are 0 to 7, registers those of the first eight that can be a base without a displacement.
// internal/kernel/amx asks two disassemblers whether each use is what it says.
#define RAX 0
#define RCX 1
#define RDX 2
#define RBX 3
#define RSI 6
#define RDI 7

// A configuration of 64 bytes at base.
#define LDTILECFG(base) BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $(base)
#define TILERELEASE BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0xC0
#define TILEZERO(t) BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $(0xC0|t<<3)

// Rows from base on, as many bytes apart as index says.
#define TILELOADD(t, base, index) BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x4B; BYTE $(0x04|t<<3); BYTE $(index<<3|base)
#define TILESTORED(t, base, index) BYTE $0xC4; BYTE $0xE2; BYTE $0x7A; BYTE $0x4B; BYTE $(0x04|t<<3); BYTE $(index<<3|base)

// c += a·b: both signed; a signed and b unsigned.
#define TDPBSSD(c, a, b) BYTE $0xC4; BYTE $0xE2; BYTE $((15-b)<<3|3); BYTE $0x5E; BYTE $(0xC0|c<<3|a)
#define TDPBSUD(c, a, b) BYTE $0xC4; BYTE $0xE2; BYTE $((15-b)<<3|2); BYTE $0x5E; BYTE $(0xC0|c<<3|a)

// c += a·b of bfloat16, even columns and odd ones apart.
#define TDPBF16PS(c, a, b) BYTE $0xC4; BYTE $0xE2; BYTE $((15-b)<<3|2); BYTE $0x5C; BYTE $(0xC0|c<<3|a)
