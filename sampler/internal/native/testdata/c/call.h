// Calls a signal handler as a C function. Reports which of the registers that a called function must
// preserve have changed: bit n for the nth of the names below.
#include <signal.h>
#include <string.h>

typedef void handler(int, siginfo_t *, void *);
long call_checked(handler *h, int sig, siginfo_t *info, void *ctx);

#if defined(__x86_64__)
static const char *const kept[] = {"RBX", "RBP", "R12", "R13", "R14", "R15"};
__asm__(
	".text\n.globl call_checked\n.type call_checked, @function\ncall_checked:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	sub $8, %rsp\n"
	"	mov %rdi, %rax\n	mov %esi, %edi\n	mov %rdx, %rsi\n	mov %rcx, %rdx\n"
	"	mov $0x1111, %rbx\n	mov $0x2222, %rbp\n	mov $0x3333, %r12\n"
	"	mov $0x4444, %r13\n	mov $0x5555, %r14\n	mov $0x6666, %r15\n"
	"	call *%rax\n"
	"	xor %eax, %eax\n"
	"	cmp $0x1111, %rbx\n	je 1f\n	or $1, %rax\n1:\n"
	"	cmp $0x2222, %rbp\n	je 1f\n	or $2, %rax\n1:\n"
	"	cmp $0x3333, %r12\n	je 1f\n	or $4, %rax\n1:\n"
	"	cmp $0x4444, %r13\n	je 1f\n	or $8, %rax\n1:\n"
	"	cmp $0x5555, %r14\n	je 1f\n	or $16, %rax\n1:\n"
	"	cmp $0x6666, %r15\n	je 1f\n	or $32, %rax\n1:\n"
	"	add $8, %rsp\n	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n	ret\n"
	".size call_checked, .-call_checked\n");
#elif defined(__aarch64__)
static const char *const kept[] = {"X19", "X20", "X21", "X22", "X23", "X24", "X25", "X26", "X27", "X28", "X29",
	"D8", "D9", "D10", "D11", "D12", "D13", "D14", "D15"};
#define SET(n) "	mov x" #n ", #0x1000+" #n "\n"
#define SETD(n) "	mov x16, #0x2000+" #n "\n	fmov d" #n ", x16\n"
#define CMP(n, bit) "	mov x16, #0x1000+" #n "\n	cmp x" #n ", x16\n	b.eq 1f\n	orr x0, x0, #(1<<" #bit ")\n1:\n"
#define CMPD(n, bit) "	mov x16, #0x2000+" #n "\n	fmov x17, d" #n "\n	cmp x17, x16\n	b.eq 1f\n	orr x0, x0, #(1<<" #bit ")\n1:\n"
__asm__(
	".text\n.globl call_checked\n.type call_checked, %function\ncall_checked:\n"
	"	stp x29, x30, [sp, #-176]!\n	stp x19, x20, [sp, #16]\n	stp x21, x22, [sp, #32]\n	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n	stp x27, x28, [sp, #80]\n	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n	stp d14, d15, [sp, #144]\n"
	"	mov x9, x0\n	mov w0, w1\n	mov x1, x2\n	mov x2, x3\n"
	SET(19) SET(20) SET(21) SET(22) SET(23) SET(24) SET(25) SET(26) SET(27) SET(28) SET(29)
	SETD(8) SETD(9) SETD(10) SETD(11) SETD(12) SETD(13) SETD(14) SETD(15)
	"	blr x9\n"
	"	mov x0, #0\n"
	CMP(19, 0) CMP(20, 1) CMP(21, 2) CMP(22, 3) CMP(23, 4) CMP(24, 5) CMP(25, 6) CMP(26, 7) CMP(27, 8) CMP(28, 9) CMP(29, 10)
	CMPD(8, 11) CMPD(9, 12) CMPD(10, 13) CMPD(11, 14) CMPD(12, 15) CMPD(13, 16) CMPD(14, 17) CMPD(15, 18)
	"	ldp x19, x20, [sp, #16]\n	ldp x21, x22, [sp, #32]\n	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n	ldp x27, x28, [sp, #80]\n	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n	ldp d14, d15, [sp, #144]\n	ldp x29, x30, [sp], #176\n	ret\n"
	".size call_checked, .-call_checked\n");
#endif

static void name_lost(long lost, char *text) {
	for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++)
		if (lost >> i & 1) { strcat(text, " "); strcat(text, kept[i]); }
}
