// SPDX-License-Identifier: BSD-2-Clause
#include "format/wait_record.h"

#include <string.h>

#include "base/util.h"

#define MAGIC "xpw1"

/* Members in file order. */
#define FIELDS(do_field, wait)                                                                                         \
	do_field((wait)->blocked_ns);                                                                                  \
	do_field((wait)->runnable_ns);                                                                                 \
	do_field((wait)->chance);                                                                                      \
	do_field((wait)->state);                                                                                       \
	do_field((wait)->flags);                                                                                       \
	do_field((wait)->syscall);                                                                                     \
	do_field((wait)->waker_pid);                                                                                   \
	do_field((wait)->waker_tid);                                                                                   \
	do_field((wait)->waker_comm);                                                                                  \
	do_field((wait)->lock)

uint64_t xp_wait_record_period(const struct xp_wait_record *wait)
{
	return xp_scale(xp_wait_record_ns(wait), XP_WAIT_CHANCE_ONE, XP_MAX(wait->chance, 1u));
}

void xp_wait_record_write(const struct xp_wait_record *wait, uint8_t raw[XP_WAIT_RECORD_BYTES])
{
	uint8_t *to = raw + sizeof(MAGIC) - 1;

	memcpy(raw, MAGIC, sizeof(MAGIC) - 1);
#define PUT(field)                                                                                                     \
	do {                                                                                                           \
		memcpy(to, &(field), sizeof(field));                                                                   \
		to += sizeof(field);                                                                                   \
	} while (0)
	FIELDS(PUT, wait);
}

bool xp_wait_record_read(struct xp_wait_record *wait, const uint8_t *raw, size_t size)
{
	uint8_t whole[XP_WAIT_RECORD_BYTES] = { 0 };
	const uint8_t *from = whole + sizeof(MAGIC) - 1;

	if (size < XP_WAIT_RECORD_OLD_BYTES || memcmp(raw, MAGIC, sizeof(MAGIC) - 1))
		return false;
	memcpy(whole, raw, XP_MIN(size, sizeof(whole)));
#define GET(field)                                                                                                     \
	do {                                                                                                           \
		memcpy(&(field), from, sizeof(field));                                                                 \
		from += sizeof(field);                                                                                 \
	} while (0)
	FIELDS(GET, wait);
	wait->waker_comm[sizeof(wait->waker_comm) - 1] = 0;
	return wait->chance && wait->chance <= XP_WAIT_CHANCE_ONE && wait->runnable_ns <= UINT64_MAX - wait->blocked_ns;
}

const char *xp_wait_state_text(uint32_t state)
{
	switch (state) {
	case XP_WAIT_PREEMPTED:
		return "preempted";
	case XP_WAIT_SLEEP:
		return "sleeping";
	case XP_WAIT_LOCK:
		return "lock";
	case XP_WAIT_FUTEX:
		return "futex";
	case XP_WAIT_DISK:
		return "disk";
	case XP_WAIT_STOPPED:
		return "stopped";
	case XP_WAIT_TRACED:
		return "traced";
	case XP_WAIT_IDLE:
		return "idle";
	default:
		return "other";
	}
}
