// Package metal runs AMX in Bochs, which knows it from Debian 13 on, on bare metal: neither Linux nor Go is there, but the functions of
// the set amx, cut out of the test binary byte by byte, functions of our own that GNU's assembler encodes, and what boot.S does to call
// them one after the other and to note their exceptions. Bochs is an oracle that owes nothing to package tile: it decodes, it has the
// rules of configurations, and it adds bfloat16 up in the order of the manual, bit for bit.
//
// What it is no oracle of is the signs of int8: Bochs (3.0 and 3.1 were seen) multiplies as TDPBUUD does whatever is asked, so operands
// that are signed stay below 128 here. LLVM, which package tile asks, has the signs, and adds bfloat16 up in an order of its own. And of two numbers of
// one exponent and opposite signs Bochs (3.0) takes the sum for zero where it is below 2^-125, one bit too early, so none are added here
// whose sums get there.
package metal
