/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of Go functions, byte by byte: two functions at `text`, the second one in assembly, and the end of both. */
#ifndef XPROF_TESTS_GO_TABLE_H
#define XPROF_TESTS_GO_TABLE_H

#include <stdint.h>
#include <string.h>

enum {
	GO_TABLE_NAMES = 72, /* after the header */
	GO_TABLE_FUNCTIONS = 104,
	GO_TABLE_DETAILS = 24, /* from there on: two entries, and the end */
	GO_TABLE_DETAILS_BYTES = 44,
	GO_TABLE_BYTES = GO_TABLE_FUNCTIONS + GO_TABLE_DETAILS + 2 * GO_TABLE_DETAILS_BYTES,
};

static inline void go_table_put(uint8_t *table, size_t at, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		table[at + i] = (uint8_t)(value >> 8 * i);
}

/* version: 18 (Go 1.18 and 1.19) or 20 (Go 1.20 and later). */
static inline void go_table_make(uint8_t table[GO_TABLE_BYTES], int version)
{
	static const char names[] = "\0main.f\0main.(*T).g";

	memset(table, 0, GO_TABLE_BYTES);
	go_table_put(table, 0, version == 18 ? 0xfffffff0 : 0xfffffff1, 4);
	table[6] = 1;
	table[7] = 8;
	go_table_put(table, 8, 2, 8);
	go_table_put(table, 32, GO_TABLE_NAMES, 8);
	go_table_put(table, 64, GO_TABLE_FUNCTIONS, 8);
	memcpy(table + GO_TABLE_NAMES, names, sizeof(names));
	for (uint32_t i = 0; i < 2; i++) {
		size_t details = GO_TABLE_DETAILS + i * GO_TABLE_DETAILS_BYTES;

		go_table_put(table, GO_TABLE_FUNCTIONS + 8 * i, i * 0x20, 4);
		go_table_put(table, GO_TABLE_FUNCTIONS + 8 * i + 4, details, 4);
		go_table_put(table, GO_TABLE_FUNCTIONS + details + 4, i ? 8 : 1, 4);
		go_table_put(table, GO_TABLE_FUNCTIONS + details + (version == 18 ? 37 : 41), i ? 4 : 0, 1);
	}
	go_table_put(table, GO_TABLE_FUNCTIONS + 16, 0x50, 4);
}

#endif
