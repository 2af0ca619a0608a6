// SPDX-License-Identifier: BSD-2-Clause
#include "sample/perf_bpf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "base/util.h"
#include "kernel/bpf_list.h"

struct naming {
	struct xp_perfdata *perfdata;
	xp_ksym_describe *describe;
	void *arg;
	char texts[XP_KSYM_BATCH][XP_KSYM_TEXT_BYTES];
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

static int put_program(void *arg, const struct xp_bpf_listed *program)
{
	struct naming *naming = arg;
	size_t some;
	int err = 0;

	for (size_t done = 0; done < program->count && !err; done += some) {
		some = XP_MIN(program->count - done, (size_t)XP_KSYM_BATCH);
		err = put_functions(naming, program->starts + done, program->bytes + done, some);
	}
	return err ? err : xp_perfdata_bpf(naming->perfdata, 0, PERF_BPF_EVENT_PROG_LOAD, program->id, program->tag);
}

int xp_perf_bpf_write_all(struct xp_perfdata *perfdata, xp_ksym_describe *describe, void *arg)
{
	struct naming naming = { perfdata, describe, arg, { { 0 } } };
	int err = describe ? xp_bpf_list(put_program, &naming) : 0;

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
