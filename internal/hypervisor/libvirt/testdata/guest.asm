# A guest of 512 bytes: as guest.asm -o guest.o && ld -Ttext 0x7c00 --oformat binary guest.o -o guest.bin
# It writes a line to the first serial port, then echoes what it reads there; a
# "q" switches the machine off.
	.code16
	.globl _start
_start:
	xorw %ax, %ax
	movw %ax, %ds
	movw $text, %si
1:	lodsb
	testb %al, %al
	jz 2f
	call put
	jmp 1b
2:	movw $0x3fd, %dx
	inb %dx, %al
	testb $1, %al
	jz 2b
	movw $0x3f8, %dx
	inb %dx, %al
	cmpb $'q', %al
	je 3f
	call put
	jmp 2b
3:	movw $0x604, %dx
	movw $0x2000, %ax
	outw %ax, %dx
4:	hlt
	jmp 4b
put:	movb %al, %ah
5:	movw $0x3fd, %dx
	inb %dx, %al
	testb $0x20, %al
	jz 5b
	movb %ah, %al
	movw $0x3f8, %dx
	outb %al, %dx
	ret
text:	.asciz "I am a guest\r\n"
	.org 510
	.word 0xaa55
