// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/sigframe.h"

#include <cpuid.h>
#include <stdbool.h>
#include <string.h>

#include "base/util.h"

/* Context flags: the frame has extended state; ss is saved; ss must be restored exactly. */
#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u
#define UC_STRICT_RESTORE_SS 4u
#define NO_MODE 4 /* an invalid alternate stack mode: the kernel then keeps the thread's alternate stack */

struct context {
	uint64_t return_address; /* return address of the handler, popped by its ret */
	uint64_t flags;
	uint64_t link;
	uint64_t stack_pointer;
	int32_t stack_mode;
	uint32_t pad;
	uint64_t stack_bytes;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2;
	uint64_t extended; /* address of the extended state */
	uint64_t reserved[8];
	uint64_t mask;
};
_Static_assert(sizeof(struct context) == 312, "as the kernel has it");
#define EXTENDED_OFFSET 320
_Static_assert(EXTENDED_OFFSET % XP_SIGFRAME_ALIGN == 0, "XRSTOR wants it");

/* The extended state: 512 bytes of FXSAVE, the last of which are reserved for software, then the XSAVE header. */
#define SOFTWARE_OFFSET 464
#define HEADER_OFFSET 512
#define HEADER_BYTES 64
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u
#define FEATURES_LEGACY 3u /* x87 and SSE */
#define FEATURE_PKRU (1u << 9)

struct software_bytes {
	uint32_t magic1;
	uint32_t extended_bytes; /* including the second magic */
	uint64_t features;
	uint32_t state_bytes;
	uint32_t pad[7];
};
_Static_assert(sizeof(struct software_bytes) == HEADER_OFFSET - SOFTWARE_OFFSET, "the rest of FXSAVE");

static uint64_t get64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

/* ptrace stores the features of the CPU in the software bytes, and the features in use in the header. */
static uint64_t features_of(const struct xp_sigframe_state *state)
{
	uint64_t possible = get64(state->extended + SOFTWARE_OFFSET);

	/* ptrace always includes the protection keys, even if the header does not list them. */
	return (get64(state->extended + HEADER_OFFSET) & possible) | FEATURES_LEGACY | (possible & FEATURE_PKRU);
}

/* Size up to the end of the last feature in use. The kernel rejects a frame with more state than the thread may use. */
static size_t state_bytes(const struct xp_sigframe_state *state)
{
	uint64_t features = features_of(state) & ~(uint64_t)FEATURES_LEGACY;
	size_t bytes = HEADER_OFFSET + HEADER_BYTES;

	for (unsigned int i = 2; i < 64; i++) {
		unsigned int size, offset, c, d;

		if (!(features >> i & 1))
			continue;
		if (!__get_cpuid_count(0xd, i, &size, &offset, &c, &d))
			return 0;
		bytes = XP_MAX(bytes, (size_t)offset + size);
	}
	return bytes;
}

size_t xp_sigframe_bytes(const struct xp_sigframe_state *state)
{
	size_t bytes;

	if (state->extended_bytes < HEADER_OFFSET + HEADER_BYTES || state->extended_bytes > sizeof(state->extended))
		return 0;
	bytes = state_bytes(state);
	return bytes && bytes <= state->extended_bytes ? EXTENDED_OFFSET + bytes + sizeof(uint32_t) : 0;
}

static void make_extended(uint8_t *to, const struct xp_sigframe_state *state)
{
	const struct software_bytes software = {
		.magic1 = MAGIC1,
		.extended_bytes = (uint32_t)(state_bytes(state) + sizeof(uint32_t)),
		.features = features_of(state),
		.state_bytes = (uint32_t)state_bytes(state),
	};
	const uint64_t header[HEADER_BYTES / sizeof(uint64_t)] = { features_of(state) };
	const uint32_t magic2 = MAGIC2;

	memcpy(to, state->extended, software.state_bytes);
	memcpy(to + SOFTWARE_OFFSET, &software, sizeof(software));
	memcpy(to + HEADER_OFFSET, header, sizeof(header));
	memcpy(to + software.state_bytes, &magic2, sizeof(magic2));
}

/* Codes of system calls that the kernel restarts if no handler runs: include/linux/errno.h. */
static bool is_restarted(int64_t answer)
{
	return answer == -512 || answer == -513 || answer == -514 || answer == -516;
}

void xp_sigframe_make(uint8_t *frame, uint64_t address, const struct xp_sigframe_state *state)
{
	const struct user_regs_struct *from = &state->registers;
	bool again = (int64_t)from->orig_rax >= 0 && is_restarted((int64_t)from->rax);
	const struct context context = {
		.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
		.stack_mode = NO_MODE,
		.r8 = from->r8,
		.r9 = from->r9,
		.r10 = from->r10,
		.r11 = from->r11,
		.r12 = from->r12,
		.r13 = from->r13,
		.r14 = from->r14,
		.r15 = from->r15,
		.rdi = from->rdi,
		.rsi = from->rsi,
		.rbp = from->rbp,
		.rbx = from->rbx,
		.rdx = from->rdx,
		.rax = again ? from->orig_rax : from->rax,
		.rcx = from->rcx,
		.rsp = from->rsp,
		.rip = again ? from->rip - 2 : from->rip, /* back to the syscall instruction */
		.eflags = from->eflags,
		.cs = (uint16_t)from->cs,
		.ss = (uint16_t)from->ss,
		.extended = address + EXTENDED_OFFSET,
		.mask = state->mask,
	};

	memset(frame, 0, EXTENDED_OFFSET);
	memcpy(frame, &context, sizeof(context));
	make_extended(frame + EXTENDED_OFFSET, state);
}
