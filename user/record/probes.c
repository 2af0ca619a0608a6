/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/targets.h"

#include <stdlib.h>

#include "base/array.h"
#include "target/link_map.h"

const struct xp_attached *xp_probes_find(const struct xp_probes *probes, const struct xp_object *object, pid_t pid)
{
	for (size_t i = 0; i < probes->attached_count; i++)
		if (probes->attached[i].object == object &&
		    (probes->attached[i].pid == pid || !probes->attached[i].pid))
			return &probes->attached[i];
	return NULL;
}

const struct xp_attached *xp_probes_find_any(const struct xp_probes *probes, const struct xp_object *object)
{
	for (size_t i = 0; i < probes->attached_count; i++)
		if (probes->attached[i].object == object)
			return &probes->attached[i];
	return NULL;
}

int xp_probes_add(struct xp_probes *probes, const struct xp_attached *attached)
{
	int err = XP_ARRAY_ADD(probes->attached, probes->attached_count, probes->attached_room, *attached);
	probes->any_attached = true;
	return err;
}

int xp_probes_add_linker(struct xp_probes *probes, const struct xp_programs *programs, int fd, const struct stat *st,
			 pid_t pid)
{
	uint64_t offset;
	int err;

	for (size_t i = 0; i < probes->linker_count; i++)
		if (probes->linkers[i].inode == st->st_ino && probes->linkers[i].dev == st->st_dev &&
		    probes->linkers[i].pid == pid)
			return 0;
	if (!probes->attach || probes->stopped || xp_link_map_offset(fd, &offset))
		return 0;
	err = XP_ARRAY_RESERVE(probes->linkers, probes->linker_room, probes->linker_count + 1);
	if (err)
		return err;
	err = xp_attach_uprobe(probes->attach, programs->fds.link_map, fd, pid, offset);
	if (!err)
		probes->linkers[probes->linker_count++] = (struct xp_linker){ st->st_dev, st->st_ino, pid };
	return err;
}

/*
 * The kernel ties the probes of a process to its first thread. If another thread executes a program, that thread takes
 * over the PID, and the first thread is gone. Then the kernel no longer arms these probes, but still runs uprobe_multi
 * probes in addition to new ones at the same place. So detach the uprobe_multi probes. (Perf events end with their
 * thread, and closing many takes seconds.)
 */
void xp_probes_drop_process(struct xp_probes *probes, pid_t pid, bool multi)
{
	if (probes->throttle)
		xp_throttle_drop_process(probes->throttle, pid);
	if (probes->patch)
		xp_patch_forget(probes->patch, pid);
	if (probes->attach && (multi || probes->patch || probes->usdt.pattern_count))
		xp_attach_detach_process(probes->attach, pid);
	xp_usdt_on_drop_process(&probes->usdt, pid);
	XP_ARRAY_KEEP(probes->attached, probes->attached_count, i, probes->attached[i].pid != pid);
	XP_ARRAY_KEEP(probes->linkers, probes->linker_count, i, probes->linkers[i].pid != pid);
}

struct xp_sled_result xp_probes_sum(const struct xp_probes *probes)
{
	struct xp_sled_result sum = { 0 };

	for (size_t i = 0; i < probes->attached_count; i++) {
		sum.attached += probes->attached[i].sleds.attached;
		sum.patched += probes->attached[i].sleds.patched;
		sum.unreadable += probes->attached[i].sleds.unreadable;
	}
	return sum;
}

void xp_probes_free(struct xp_probes *probes)
{
	xp_patch_free(probes->patch);
	xp_attach_free(probes->attach);
	xp_throttle_free(probes->throttle);
	free(probes->attached);
	free(probes->linkers);
	xp_usdt_on_free(&probes->usdt);
}
