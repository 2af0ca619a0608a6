/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/recording.h"

#include <errno.h>

#include "event/kinds.h"
#include "trace/process_rings.h"

/* ---- calls, and events of the program ---- */

/*
 * Adds the process of an event of an unknown process, which may have exited before it could be scanned. Only --exec
 * needs this, and --follow after a fork event was lost: the BPF programs of --follow record only followed processes.
 */
static int adopt(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	const struct xp_options *options = targets->options;
	pid_t pid = (pid_t)arrival->event->pid;
	struct xp_process *process = xp_processes_find(&targets->processes, pid);

	if (!process && !options->exec_path && !options->follow)
		return -ENOENT;
	/* The PID may have been reused by a process that is not ours. */
	if (!process && (options->exec_path || xp_programs_is_target(targets->programs, arrival->event->pid)))
		xp_follow_add(targets, &process, pid, arrival->tsc);
	/* Call this even for a known process: it may have unloaded the binary of the event. */
	return xp_follow_adopt(targets, arrival, "unknown");
}

static int take_call(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	struct xp_processes *processes = &targets->processes;
	int err = xp_processes_record(processes, arrival);

	if (err == -ENOENT) {
		err = adopt(targets, arrival);
		if (!err)
			err = xp_processes_record(processes, arrival);
	}
	if (err == -ENOENT) {
		targets->other_process++;
		return 0;
	}
	return err;
}

/* ---- threads ---- */

static int begin_thread(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	return xp_processes_begin_task(&targets->processes, arrival);
}

static int end_thread(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	return xp_processes_end_task(&targets->processes, arrival);
}

/* ---- samples, waits, JIT code ---- */

static int take_jit(struct xp_sampling *sampling, const struct xp_arrival *arrival)
{
	return xp_samples_jit_told(&sampling->samples, (pid_t)arrival->event->pid, arrival->tsc);
}

static int take_sample(struct xp_sampling *sampling, const struct xp_arrival *arrival)
{
	return arrival->tsc > sampling->targets->stop_tsc ? 0 : xp_samples_record(&sampling->samples, arrival);
}

static int note_wait(struct xp_targets *targets, const struct xp_arrival *arrival)
{
	return xp_processes_note_wait(&targets->processes, arrival);
}

static int take_usdt(struct xp_sampling *sampling, const struct xp_arrival *arrival)
{
	const struct xp_event_usdt *event = (const struct xp_event_usdt *)arrival->event;
	char text[XP_USDT_TEXT_BYTES];

	if (arrival->tsc > sampling->targets->stop_tsc || !xp_usdt_on_text(sampling->usdt, event, text))
		return 0;
	return xp_samples_usdt(&sampling->samples, arrival, text);
}

struct handler {
	int (*targets)(struct xp_targets *targets, const struct xp_arrival *arrival);
	int (*sampling)(struct xp_sampling *sampling, const struct xp_arrival *arrival);
	int (*waits)(struct xp_waits *waits, const struct xp_arrival *arrival);
};

static const struct handler handlers[XP_EVENT_KINDS] = {
	[XP_EVENT_ENTRY] = { .targets = take_call },
	[XP_EVENT_EXIT] = { .targets = take_call },
	[XP_EVENT_TAIL_EXIT] = { .targets = take_call },
	[XP_EVENT_ENTRY_ARGS] = { .targets = take_call },
	[XP_EVENT_CUSTOM] = { .targets = take_call },
	[XP_EVENT_TYPED] = { .targets = take_call },
	[XP_EVENT_GO_ENTRY] = { .targets = take_call },
	[XP_EVENT_GO_EXIT] = { .targets = take_call },
	[XP_EVENT_THREAD] = { .targets = begin_thread },
	[XP_EVENT_THREAD_GONE] = { .targets = end_thread },
	[XP_EVENT_EXEC] = { .targets = xp_follow_exec },
	[XP_EVENT_FORK] = { .targets = xp_follow_fork },
	[XP_EVENT_EXIT_THREAD] = { .targets = xp_follow_exit_thread },
	[XP_EVENT_EXIT_PROCESS] = { .targets = xp_follow_exit_process },
	[XP_EVENT_LINK_MAP] = { .targets = xp_follow_link_map },
	[XP_EVENT_JIT] = { .sampling = take_jit },
	[XP_EVENT_SAMPLE] = { .sampling = take_sample },
	[XP_EVENT_SWITCH] = { .sampling = xp_sampling_switch },
	[XP_EVENT_WAIT_BEGIN] = { .waits = xp_waits_begin },
	[XP_EVENT_WAIT] = { .targets = note_wait, .waits = xp_waits_end },
	[XP_EVENT_WAIT_SUM] = { .waits = xp_waits_sum },
	[XP_EVENT_USDT] = { .sampling = take_usdt },
};

int xp_arrivals_take(struct xp_recording *recording, const struct xp_arrival *arrival)
{
	const struct handler *handler;
	int err = xp_event_check(arrival);

	if (!err)
		err = xp_sampling_apply_sideband(&recording->sampling, arrival->tsc);
	if (err)
		return err;
	handler = &handlers[xp_event_kind(arrival->event)];
	if (handler->targets)
		err = handler->targets(&recording->targets, arrival);
	if (!err && handler->sampling)
		err = handler->sampling(&recording->sampling, arrival);
	return !err && handler->waits ? handler->waits(&recording->off_cpu.waits, arrival) : err;
}
