// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_bpf.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

/* The verifier's limit: BPF_MAX_SUBPROGS, plus the program itself. */
#define FUNCTIONS_MAX 257

struct naming {
	struct xp_perfdata *perfdata;
	xp_ksym_describe *describe;
	void *arg;
	char texts[XP_KSYM_BATCH][XP_KSYM_TEXT_BYTES];
	/* Functions of a program. */
	uint64_t starts[FUNCTIONS_MAX];
	uint32_t bytes[FUNCTIONS_MAX];
};

/* The kernel gives names as "name+0x0/0x40". A function without a name has no record. */
static int put_functions(struct naming *naming, const uint64_t *starts, const uint32_t *bytes, size_t count)
{
	int err = naming->describe(naming->arg, starts, count, naming->texts) ? -ENOENT : 0;

	for (size_t i = 0; i < count && !err; i++) {
		struct xp_perfdata_symbol symbol = {
			.start = starts[i],
			.bytes = bytes[i],
			.type = PERF_RECORD_KSYMBOL_TYPE_BPF,
			.name = naming->texts[i],
		};

		naming->texts[i][strcspn(naming->texts[i], "+")] = 0;
		if (!strncmp(symbol.name, "bpf_prog_", 9))
			err = xp_perfdata_symbol(naming->perfdata, 0, &symbol);
	}
	return err == -ENOENT ? 0 : err;
}

/* Ignores a program that was unloaded meanwhile. */
static int put_program(struct naming *naming, uint32_t id)
{
	struct bpf_prog_info info = {
		.nr_jited_ksyms = FUNCTIONS_MAX,
		.jited_ksyms = (uintptr_t)naming->starts,
		.nr_jited_func_lens = FUNCTIONS_MAX,
		.jited_func_lens = (uintptr_t)naming->bytes,
	};
	size_t count = 0, some;
	uint32_t size = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);
	int err;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	err = bpf_obj_get_info_by_fd(fd, &info, &size) ? -errno : 0;
	close(fd);
	if (err)
		return 0;
	/* None if the program is interpreted, or if addresses are hidden (CAP_SYSLOG). */
	if (info.jited_ksyms && info.jited_func_lens)
		count = XP_MIN(XP_MIN(info.nr_jited_ksyms, info.nr_jited_func_lens), FUNCTIONS_MAX);
	for (size_t done = 0; done < count && !err; done += some) {
		some = XP_MIN(count - done, (size_t)XP_KSYM_BATCH);
		err = put_functions(naming, naming->starts + done, naming->bytes + done, some);
	}
	return err ? err : xp_perfdata_bpf(naming->perfdata, 0, PERF_BPF_EVENT_PROG_LOAD, id, info.tag);
}

int xp_perf_bpf_write_all(struct xp_perfdata *perfdata, xp_ksym_describe *describe, void *arg)
{
	struct naming *naming = calloc(1, sizeof(*naming));
	uint32_t id = 0;
	int err = 0;

	if (!naming)
		return -ENOMEM;
	naming->perfdata = perfdata;
	naming->describe = describe;
	naming->arg = arg;
	while (!err && describe && !bpf_prog_get_next_id(id, &id))
		err = put_program(naming, id);
	if (!err && describe && errno != ENOENT)
		err = -errno;
	free(naming);
	if (err == -EPERM || err == -EACCES) {
		xp_debug("perf will not name BPF programs: listing them takes CAP_SYS_ADMIN");
		return 0;
	}
	return err;
}

int xp_perf_bpf_write(struct xp_perfdata *perfdata, const struct xp_sideband_event *event)
{
	const struct xp_perfdata_symbol symbol = {
		.start = event->start,
		.bytes = (uint32_t)event->length,
		.type = event->type,
		.flags = event->flags,
		.name = event->text,
	};

	return event->kind == XP_SIDEBAND_SYMBOL
		   ? xp_perfdata_symbol(perfdata, event->tsc, &symbol)
		   : xp_perfdata_bpf(perfdata, event->tsc, event->type, event->id, event->tag);
}
