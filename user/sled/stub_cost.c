// SPDX-License-Identifier: BSD-2-Clause
#include "sled/stub_cost.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/util.h"
#include "kernel/attach.h"

#define WARM_HITS 8
#define ROUNDS 5
#define ROUND_HITS 100

/* Loads a program that returns at once. Returns a descriptor or -errno. */
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

/* The fastest of some rounds: other load may disturb the measurement. */
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

static int call_slot(void *slot)
{
	/* Its death is expected, and must not appear in the kernel's log. */
	signal(SIGSEGV, give_up);
	signal(SIGTRAP, give_up);
	signal(SIGILL, give_up);
	((void (*)(void))(uintptr_t)slot)();
	return 0;
}

/* Whether a child that is forked now survives a call of the slot. */
static bool kills_fork(void (*slot)(void))
{
	static const struct xp_child_options options = { 0 };
	struct xp_child child;

	return xp_child_start(&child, &options, call_slot, (void *)(uintptr_t)slot) || xp_child_wait(child.pid, -1);
}

/*
 * Skips a form on which this kernel refuses a probe. Attaches all of them before it measures: the kernel waits for an
 * RCU grace period before the first uprobe, and not again before others that follow soon.
 */
static int measure(struct xp_attach *attach, int program, int fd, const uint8_t *page,
		   struct xp_stub_cost costs[XP_STUB_FORMS])
{
	bool attached[XP_STUB_FORMS];
	int err = -ENOENT;

	for (int i = 0; i < XP_STUB_FORMS; i++)
		attached[i] = !xp_attach_own_uprobe(attach, program, fd, getpid(),
						    xp_stub_probe((enum xp_stub_form)i, XP_STUB_CALL));
	for (int i = 0; i < XP_STUB_FORMS; i++) {
		enum xp_stub_form form = (enum xp_stub_form)i;
		void (*slot)(void) = (void (*)(void))(uintptr_t)(page + xp_stub_entry(form, XP_STUB_CALL));

		costs[form] = (struct xp_stub_cost){ 0 };
		if (!attached[i])
			continue;
		costs[form].hit_ns = hit_ns(slot);
		costs[form].kills_fork = kills_fork(slot);
		err = 0;
	}
	return err;
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
		munmap(mapped, XP_STUB_MAP_BYTES);
	close(fd);
	return err;
}
