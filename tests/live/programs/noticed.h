// SPDX-License-Identifier: BSD-2-Clause
/* For programs that xprof hears of only when they run: they wait until their sleds are recorded. */
#ifndef NOTICED_H
#define NOTICED_H

#include <stdint.h>
#include <unistd.h>

/* An entry of XRay's table, version 2: https://llvm.org/docs/XRay.html. */
struct sled_of_table {
	int64_t address; /* from here */
	int64_t function;
	unsigned char kind, always_instrument, version, padding[13];
};

extern const struct sled_of_table __start_xray_instr_map[] __attribute__((visibility("hidden")));
extern const struct sled_of_table __stop_xray_instr_map[] __attribute__((visibility("hidden")));

/* Whether each sled of this file begins with a breakpoint, or with what xprof writes there. */
__attribute__((xray_never_instrument)) static int sleds_are_recorded(void)
{
	for (const struct sled_of_table *sled = __start_xray_instr_map; sled != __stop_xray_instr_map; sled++) {
		unsigned char first =
		    *(const volatile unsigned char *)((uintptr_t)&sled->address + (uintptr_t)sled->address);

		if (first != 0xcc && first != 0x41)
			return 0;
	}
	return 1;
}

/* Waits until the sleds of this file are recorded, and a moment, and for limit_ms at most. */
__attribute__((xray_never_instrument, unused)) static void wait_until_noticed(int limit_ms)
{
	for (int ms = 0; ms < limit_ms; ms += 5) {
		if (limit_ms - ms > 200 && sleds_are_recorded())
			ms = limit_ms - 200;
		usleep(5000);
	}
}

#endif
