# Boots from a disk image, enters long mode, enables AVX-512 and AMX, reads what is behind sector 64 of the disk to 16 MiB, calls the
# function of each record in it with ten words on the stack, notes exceptions, writes all of it back, and stops Bochs. At 16 MiB:
#
#	 8  sectors
#	16  records
#	24  where they are, from 16 MiB on
#	32  EDX of CPUID.7, for the log
#	48  1 when all is done
#
# and of 128 bytes of a record, function, ten arguments, and at 88 its exception, more 1, or 0, at 104 and 112 RIP and CR2 then. The page
# at 48 MiB is not there.
.set PAYLBA, 64
.set PAYADDR, 0x1000000
.code16
.globl _start
_start:
	cli
	xorw %ax, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movw $0x7c00, %sp
	movb %dl, drive
	movw $0x4200, %ax
	movw $dap, %si
	int $0x13
	cli
	jc fail16
	inb $0x92, %al
	orb $2, %al
	outb %al, $0x92
	lgdt gdtr
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmpl $8, $pm32
fail16:
	hlt
	jmp fail16
drive: .byte 0
.align 4
dap:	.byte 16, 0
	.word 32          # sectors of stage 2
	.word 0x7e00, 0
	.quad 1
.align 8
gdt:	.quad 0
	.quad 0x00cf9a000000ffff   # 08 code32
	.quad 0x00cf92000000ffff   # 10 data
	.quad 0x00af9a000000ffff   # 18 code64
gdtr:	.word . - gdt - 1
	.long gdt
.org 510
	.word 0xaa55
# What the first sector loads, at 0x7e00.
.code32
pm32:
	movw $0x10, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	# Tables at 0x1000, 0x2000 and 0x3000, of 64 pages of 2 MiB.
	movl $0x1000, %edi
	xorl %eax, %eax
	movl $0xc00, %ecx
	rep stosl
	movl $0x2007, 0x1000
	movl $0x3007, 0x2000
	movl $0x3000, %edi
	movl $0x87, %eax
	movl $64, %ecx
1:	movl %eax, (%edi)
	addl $0x200000, %eax
	addl $8, %edi
	loop 1b
	movl $0, 0x3000 + 24*8
	movl %cr4, %eax
	orl $0x40620, %eax          # PAE OSFXSR OSXMMEXCPT OSXSAVE
	movl %eax, %cr4
	movl $0x1000, %eax
	movl %eax, %cr3
	movl $0xc0000080, %ecx
	rdmsr
	orl $0x100, %eax
	wrmsr
	movl %cr0, %eax
	andl $~0xc, %eax            # EM TS off
	orl $0x80000022, %eax       # PG NE MP
	movl %eax, %cr0
	ljmpl $0x18, $lm64
.code64
lm64:
	movl $0x7c00, %esp
	# 32 vectors at 0x5000.
	movl $0x5000, %edi
	leaq stubs(%rip), %rsi
	movl $32, %ecx
2:	movl %esi, %eax
	movw %ax, (%rdi)
	movw $0x18, 2(%rdi)
	movw $0x8e00, 4(%rdi)
	shrl $16, %eax
	movw %ax, 6(%rdi)
	movq $0, 8(%rdi)
	addq $16, %rdi
	addq $16, %rsi
	loop 2b
	lidt idtr(%rip)
	# The first sector says how many there are.
	movl $PAYADDR, %edi
	movl $PAYLBA, %ebx
	movl $1, %ebp
	call ataread
	movl PAYADDR+8, %ebp
	movl $PAYADDR, %edi
	movl $PAYLBA, %ebx
	call ataread
	movl $7, %eax
	xorl %ecx, %ecx
	cpuid
	movl %edx, PAYADDR+32
	xorl %ecx, %ecx
	xorl %edx, %edx
	movl $0x600e7, %eax
	xsetbv
	movl PAYADDR+16, %r12d
	movl PAYADDR+24, %r13d
	addq $PAYADDR, %r13
next:	testl %r12d, %r12d
	jz done
	movq %r13, curp(%rip)
	movq %r12, curn(%rip)
	movq $0x7a000, %rsp
	leaq 8(%r13), %rsi
	movq %rsp, %rdi
	movl $10, %ecx
	rep movsq
	call *(%r13)
	xorl %eax, %eax
after:
	movq curp(%rip), %r13
	movq curn(%rip), %r12
	movq %rax, 88(%r13)
	tilerelease
	addq $128, %r13
	decl %r12d
	jmp next
done:
	movl $1, PAYADDR+48
	movl PAYADDR+8, %ebp
	movl $PAYADDR, %esi
	movl $PAYLBA, %ebx
	call atawrite
	leaq bye(%rip), %rsi
	movl $0x8900, %edx
	movl $8, %ecx
	rep outsb
3:	hlt
	jmp 3b
bye:	.ascii "Shutdown"
	.align 8
curp:	.quad 0
curn:	.quad 0
idtr:	.word 32*16-1
	.quad 0x5000

# What every exception begins with, 16 bytes each.
	.align 16
stubs:
.set v, 0
.rept 32
	.align 16
	.if (v == 8) || (v >= 10 && v <= 14) || (v == 17)
	.else
	pushq $0
	.endif
	pushq $v
	jmp common
	.set v, v+1
.endr
.align 16
common:	# vector, error code, RIP
	movq curp(%rip), %r13
	popq %rax
	popq %rcx
	popq %rcx
	movq %rcx, 104(%r13)
	movq %cr2, %rcx
	movq %rcx, 112(%r13)
	incq %rax
	jmp after

# Sectors from EBX on, EBP of them, to RDI or from RSI, one a command, which is in AL.
atacmd:
	movb %al, %r8b
	movw $0x1f7, %dx
4:	inb %dx, %al
	testb $0x80, %al
	jnz 4b
	movw $0x1f6, %dx
	movl %ebx, %eax
	shrl $24, %eax
	andb $0xf, %al
	orb $0xe0, %al
	outb %al, %dx
	movw $0x1f2, %dx
	movb $1, %al
	outb %al, %dx
	incw %dx
	movl %ebx, %eax
	outb %al, %dx
	incw %dx
	shrl $8, %eax
	outb %al, %dx
	incw %dx
	shrl $8, %eax
	outb %al, %dx
	movw $0x1f7, %dx
	movb %r8b, %al
	outb %al, %dx
5:	inb %dx, %al
	testb $0x80, %al
	jnz 5b
	testb $8, %al
	jz 5b
	ret
ataread:
	testl %ebp, %ebp
	jz 6f
	movb $0x20, %al
	call atacmd
	movw $0x1f0, %dx
	movl $256, %ecx
	rep insw
	incl %ebx
	decl %ebp
	jmp ataread
6:	ret
atawrite:
	testl %ebp, %ebp
	jz 6b
	movb $0x30, %al
	call atacmd
	movw $0x1f0, %dx
	movl $256, %ecx
7:	outsw
	loop 7b
	incl %ebx
	decl %ebp
	jmp atawrite

# The functions of vectors: configuration, A, B and C, whose rows are 64 bytes apart. C += A·B.
.macro dot op
.globl \op\()_vector
\op\()_vector:
	movq 8(%rsp), %rax
	ldtilecfg (%rax)
	movq 16(%rsp), %rsi
	movq 24(%rsp), %rdi
	movq 32(%rsp), %rdx
	movl $64, %ecx
	tileloadd (%rdx,%rcx,1), %tmm0
	tileloadd (%rsi,%rcx,1), %tmm1
	tileloadd (%rdi,%rcx,1), %tmm2
	\op %tmm2, %tmm1, %tmm0
	tilestored %tmm0, (%rdx,%rcx,1)
	ret
.endm
	dot tdpbssd
	dot tdpbsud
	dot tdpbusd
	dot tdpbuud
	dot tdpbf16ps

# Configuration, where to. Zeros.
.globl zero_vector
zero_vector:
	movq 8(%rsp), %rax
	ldtilecfg (%rax)
	movq 16(%rsp), %rdx
	movl $64, %ecx
	tilezero %tmm0
	tilestored %tmm0, (%rdx,%rcx,1)
	ret

# Configuration. A tile used twice, which assemblers refuse.
.globl twice_vector
twice_vector:
	movq 8(%rsp), %rax
	ldtilecfg (%rax)
	.byte 0xc4, 0xe2, 0x73, 0x5e, 0xc1
	ret

# No configuration.
.globl released_vector
released_vector:
	tilezero %tmm0
	ret

.org 512*33
