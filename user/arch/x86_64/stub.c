// SPDX-License-Identifier: BSD-2-Clause
#include "arch/x86_64/stub.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/attach.h"
#include "base/clock.h"
#include "base/util.h"
#include "xprof/event.h"

#define SLOT_BYTES 64u /* a cache line */
#define FORM_BYTES (XP_STUB_SLOTS * SLOT_BYTES)
_Static_assert(XP_STUB_COUNT == XP_STUB_TEXT + XP_STUB_FORMS * FORM_BYTES, "behind the forms");
_Static_assert(XP_STUB_TEXT_BYTES == XP_STUB_COUNT + SLOT_BYTES - XP_STUB_TEXT, "the last slot");

#define WARM_HITS 8
#define ROUNDS 5
#define ROUND_HITS 100

static const struct form {
	const char *name;
	uint8_t bytes;
	uint8_t nop[10];
} forms[XP_STUB_FORMS] = {
	[XP_STUB_NOP5] = { "nop of 5 bytes", 5, { 0x0f, 0x1f, 0x44, 0x00, 0x00 } },
	[XP_STUB_NOP10] = { "nop of 10 bytes", 10, { 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00 } },
	[XP_STUB_NOP1] = { "nop of 1 byte", 1, { 0x90 } },
};

/* cmpb $0,flag(%rip); je over the nop. */
#define GUARD_BYTES 9

static bool is_guarded(enum xp_stub_slot slot)
{
	return slot == XP_STUB_CALL || slot == XP_STUB_ARGS;
}

uint32_t xp_stub_entry(enum xp_stub_form form, enum xp_stub_slot slot)
{
	return XP_STUB_TEXT + form * FORM_BYTES + slot * SLOT_BYTES;
}

uint32_t xp_stub_probe(enum xp_stub_form form, enum xp_stub_slot slot)
{
	return xp_stub_entry(form, slot) + (is_guarded(slot) ? GUARD_BYTES : 0);
}

bool xp_stub_is_slot(uint64_t offset)
{
	return offset >= XP_STUB_TEXT && offset < XP_STUB_TEXT + XP_STUB_TEXT_BYTES &&
	       (offset - XP_STUB_TEXT) % SLOT_BYTES == 0;
}

static void make_slot(uint8_t *page, enum xp_stub_form form, enum xp_stub_slot slot)
{
	const struct form *nop = &forms[is_guarded(slot) ? form : XP_STUB_NOP1];
	uint8_t *code = page + xp_stub_entry(form, slot);

	if (is_guarded(slot)) {
		/* From behind the first instruction. */
		uint32_t distance = XP_STUB_FLAG - (xp_stub_entry(form, slot) + 7);

		*code++ = 0x80;
		*code++ = 0x3d;
		memcpy(code, &distance, sizeof(distance));
		code += sizeof(distance);
		*code++ = 0;
		*code++ = 0x74;
		*code++ = nop->bytes;
	}
	memcpy(code, nop->nop, nop->bytes);
	code[nop->bytes] = 0xc3; /* ret */
}

/*
 * The CPU's number is in the limit of a segment, where the vDSO's getcpu() takes it from (vdso_read_cpunode(),
 * arch/x86/include/asm/segment.h). Were it ever to be something else, threads would only share a counter. A word that
 * is none is that of a thread which stood in the sled when that was changed.
 */
static void make_counting_slot(uint8_t *code)
{
	static const uint8_t bytes[] = {
		0x41, 0x81, 0xea, 0,	0,    0, 0xf0, /* sub $XP_REC_NONE << XP_FN_BITS,%r10d */
		0x41, 0x81, 0xfa, 0xfc, 0x01, 0, 0,    /* cmp $0x1fc,%r10d */
		0x77, 0x25,			       /* ja the ret */
		0x41, 0x53,			       /* push %r11: some calling conventions pass arguments in it */
		0x41, 0xbb, 0x7b, 0,	0,    0,       /* mov $0x7b,%r11d: the segment's selector */
		0x45, 0x0f, 0x03, 0xdb,		       /* lsl %r11d,%r11d */
		0x41, 0x83, 0xe3, 0x3f,		       /* and $0x3f,%r11d */
		0x41, 0xc1, 0xe3, 0x09,		       /* shl $9,%r11d */
		0x45, 0x01, 0xd3,		       /* add %r10d,%r11d */
		0x4c, 0x8d, 0x15, 0,	0,    0, 0,    /* lea counters(%rip),%r10 */
		0xf0, 0x43, 0xff, 0x04, 0x1a,	       /* lock incl (%r10,%r11) */
		0x41, 0x5b,			       /* pop %r11 */
		0xc3,				       /* ret */
	};
	const size_t lea_end = sizeof(bytes) - 8;
	uint32_t distance = (uint32_t)(XP_STUB_COUNTERS - (XP_STUB_COUNT + lea_end));

	_Static_assert(XP_STUB_SHARDS == 0x3f + 1 && 4 * XP_STUB_COUNTERS_MAX == 1 << 9, "as in the code");
	_Static_assert((uint32_t)XP_REC_NONE << XP_FN_BITS == 0xf0000000, "as in the code");
	_Static_assert(sizeof(bytes) <= SLOT_BYTES, "a slot");
	memcpy(code, bytes, sizeof(bytes));
	memcpy(code + lea_end - sizeof(distance), &distance, sizeof(distance));
}

void xp_stub_make(uint8_t page[XP_STUB_BYTES])
{
	xp_stub_make_elf(page);
	memset(page + XP_STUB_TEXT, 0xcc, XP_STUB_TEXT_BYTES); /* int3: whoever comes here has lost his way */
	for (int form = 0; form < XP_STUB_FORMS; form++)
		for (int slot = 0; slot < XP_STUB_SLOTS; slot++)
			make_slot(page, (enum xp_stub_form)form, (enum xp_stub_slot)slot);
	make_counting_slot(page + XP_STUB_COUNT);
}

bool xp_stub_verify(int fd)
{
	uint8_t found[XP_STUB_BYTES + 1], wanted[XP_STUB_BYTES];
	int seals = fcntl(fd, F_GET_SEALS);

	xp_stub_make(wanted);
	return seals >= 0 && (seals & F_SEAL_WRITE) && pread(fd, found, sizeof(found), 0) == XP_STUB_BYTES &&
	       !memcmp(found, wanted, XP_STUB_BYTES);
}

bool xp_stub_is_named(const char *path)
{
	return !strcmp(path, "/memfd:" XP_STUB_NAME " (deleted)");
}

const char *xp_stub_form_name(enum xp_stub_form form)
{
	return forms[form].name;
}

/* A program that returns at once; a descriptor or -errno. */
static int load_empty(void)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = (enum bpf_attach_type)XP_TRACE_UPROBE_MULTI);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "stub_empty", "Dual BSD/GPL", code, XP_ARRAY_SIZE(code), &options);

	return fd < 0 ? -errno : fd;
}

/* The quickest of some rounds: others may be at work on this machine. */
static double hit_ns(void (*slot)(void))
{
	double best = 0;

	for (int i = 0; i < WARM_HITS; i++)
		slot();
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = xp_now_ns();
		double ns;

		for (int i = 0; i < ROUND_HITS; i++)
			slot();
		ns = (double)(xp_now_ns() - begin) / ROUND_HITS;
		best = round && best < ns ? best : ns;
	}
	return best;
}

static void give_up(int number)
{
	_exit(number);
}

/* Whether a child that is forked now survives a call of the slot. */
static bool kills_fork(void (*slot)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		/* Its death is no news, for the kernel's log neither. */
		signal(SIGSEGV, give_up);
		signal(SIGTRAP, give_up);
		signal(SIGILL, give_up);
		slot();
		_exit(0);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

/* A form that this kernel does not take a probe on is left out. */
static int measure(struct xp_attach *attach, int program, int fd, const uint8_t *page,
		   struct xp_stub_cost costs[XP_STUB_FORMS])
{
	int err = -ENOENT;

	for (int i = 0; i < XP_STUB_FORMS; i++) {
		enum xp_stub_form form = (enum xp_stub_form)i;
		void (*slot)(void) = (void (*)(void))(uintptr_t)(page + xp_stub_entry(form, XP_STUB_CALL));
		struct xp_uprobe probe = { .offset = xp_stub_probe(form, XP_STUB_CALL) };

		costs[form] = (struct xp_stub_cost){ 0 };
		if (xp_attach_uprobes(attach, program, fd, getpid(), &probe, 1))
			continue;
		costs[form].hit_ns = hit_ns(slot);
		costs[form].kills_fork = kills_fork(slot);
		err = 0;
	}
	return err;
}

int xp_stub_open(void)
{
	int fd = memfd_create(XP_STUB_NAME, MFD_CLOEXEC);
	uint8_t page[XP_STUB_BYTES];
	int err;

	if (fd < 0)
		return -errno;
	xp_stub_make(page);
	err = xp_write_all(fd, page, sizeof(page));
	if (!err)
		return fd;
	close(fd);
	return err;
}

uint8_t *xp_stub_map(int fd)
{
	uint8_t *room = mmap(NULL, XP_STUB_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED)
		return NULL;
	room[XP_STUB_FLAG] = 1;
	if (madvise(room + XP_STUB_FLAG, XP_STUB_ROOM - XP_STUB_FLAG, MADV_WIPEONFORK) ||
	    mmap(room, XP_STUB_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(room, XP_STUB_ROOM);
		return NULL;
	}
	return room;
}

int xp_stub_measure(enum xp_stub_form *form, struct xp_stub_cost costs[XP_STUB_FORMS])
{
	struct xp_attach *attach = NULL;
	uint8_t *mapped = NULL;
	int program = -1, err;
	int fd = xp_stub_open();

	*form = XP_STUB_NOP1;
	if (fd < 0)
		return fd;
	mapped = xp_stub_map(fd);
	err = mapped ? xp_attach_new(&attach, true) : -errno;
	if (err)
		goto out;
	program = load_empty();
	err = program < 0 ? program : measure(attach, program, fd, mapped, costs);
	for (int i = 0; i < XP_STUB_FORMS && !err; i++)
		if (costs[i].hit_ns && !costs[i].kills_fork &&
		    (!costs[*form].hit_ns || costs[i].hit_ns < costs[*form].hit_ns))
			*form = (enum xp_stub_form)i;
out:
	xp_attach_free(attach);
	if (program >= 0)
		close(program);
	if (mapped)
		munmap(mapped, XP_STUB_ROOM);
	close(fd);
	return err;
}
