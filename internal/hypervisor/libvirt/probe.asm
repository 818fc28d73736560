# The KVM probe: as probe.asm -o probe.o && ld -Ttext 0x7c00 --oformat binary probe.o -o probe.bin
# A boot sector. It asks the BIOS for disk parameters, enters protected and then
# 64-bit mode with paging, takes a timer interrupt's worth of instructions, and
# only then writes its marker to the first serial port.
	.code16
	.globl _start
_start:
	cli
	xorw %ax, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movw $0x7c00, %sp
	movb $0x41, %ah
	movw $0x55aa, %bx
	int $0x13
	cli
	# Page tables at 0x1000: one 2 MiB page, identity.
	movw $0x1000, %di
	movw $0x1800, %cx
	xorw %ax, %ax
	cld
	rep stosw
	movl $0x2003, 0x1000
	movl $0x3003, 0x2000
	movl $0x0083, 0x3000
	movl $0x1000, %eax
	movl %eax, %cr3
	movl %cr4, %eax
	orl $0x620, %eax
	movl %eax, %cr4
	movl $0xc0000080, %ecx
	rdmsr
	orl $0x100, %eax
	wrmsr
	lgdt gdtr
	movl %cr0, %eax
	andl $0xfffffffb, %eax
	orl $0x80000003, %eax
	movl %eax, %cr0
	ljmp $8, $long
	.code64
long:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	xorl %eax, %eax
	cpuid
	movl $5000000, %ecx
1:	loop 1b
	pxor %xmm0, %xmm0
	movl $text, %esi
2:	lodsb
	testb %al, %al
	jz 3f
	movw $0x3f8, %dx
	outb %al, %dx
	jmp 2b
3:	movw $0xf4, %dx
	movb $1, %al
	outb %al, %dx
4:	hlt
	jmp 4b
text:	.asciz "TENON-KVM-OK\n"
	.balign 8
gdt:	.quad 0, 0x00af9b000000ffff, 0x00af93000000ffff
gdtr:	.word gdtr - gdt - 1
	.long gdt
	.org 510
	.word 0xaa55
