/* SPDX-License-Identifier: BSD-2-Clause */
/* What function events belong to: owns the objects with sleds, and the traced processes with their logs. */
#ifndef XPROF_RECORD_TRACED_H
#define XPROF_RECORD_TRACED_H

#include <stdint.h>

#include "sled/object.h"
#include "trace/flight_writer.h"
#include "trace/process.h"
#include "trace/process_flight.h"

struct xp_traced {
	struct xp_objects objects;
	struct xp_processes processes;	       /* also has the TSC of the recording's start and end */
	struct xp_flight_writer flight_writer; /* --flight */
	uint64_t other_process; /* events of processes that are not targets, or of functions that they do not have */
};

#endif
