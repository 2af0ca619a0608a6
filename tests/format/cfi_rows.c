// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints xprof's unwind table of a file, for tests that compare the table with other readers: `cfi_rows FILE [START
 * END]`, with START and END for a part of the file, or `cfi_rows --vdso` for the vDSO, which it first writes to the
 * file vdso.so.
 *
 * The first line has sizes of the table and the memory used, as "name value". Each other line is a row: offset, rule,
 * CFA, rbp, and the further members of an exotic rule.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/vdso.h"
#include "unwind/cfi_build.h"
#include "unwind/cfi_table.h"

static const char *const rules[] = {
	[XP_CFI_NONE] = "none",	  [XP_CFI_RSP] = "rsp",	      [XP_CFI_RBP] = "rbp", [XP_CFI_PLT] = "plt",
	[XP_CFI_DEREF] = "deref", [XP_CFI_SIGNAL] = "signal", [XP_CFI_END] = "end", [XP_CFI_REG] = "reg",
	[XP_CFI_CLONE] = "clone", [XP_CFI_SWITCH] = "switch",
};

static const char *const reasons[] = {
	[XP_CFI_KNOWN] = "known",	  [XP_CFI_NO_FDE] = "no_fde",
	[XP_CFI_BAD_ENTRY] = "bad_entry", [XP_CFI_CFA_REGISTER] = "cfa_register",
	[XP_CFI_CFA_RANGE] = "cfa_range", [XP_CFI_CFA_EXPRESSION] = "cfa_expression",
	[XP_CFI_RA_RULE] = "ra_rule",	  [XP_CFI_RBP_RULE] = "rbp_rule",
};

/* getrusage(2) would include the peak of the parent process. */
static unsigned long peak_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	while (file && !kib && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %lu kB", &kib) != 1)
			kib = 0;
	if (file)
		fclose(file);
	return kib;
}

static void print(const struct xp_cfi_table *table)
{
	const struct xp_cfi_header *header = xp_cfi_table_header(table);
	const struct xp_cfi_row *rows = (const struct xp_cfi_row *)(header + 1);

	printf("rows %" PRIu32 " bytes %zu build_us %" PRIu64 " peak_kib %lu", header->row_count,
	       xp_cfi_table_bytes(table), header->build_ns / 1000, peak_kib());
	for (size_t i = 0; i < XP_CFI_REASONS; i++)
		printf(" %s %" PRIu64, reasons[i], header->code_bytes[i]);
	printf("\n");
	for (uint32_t i = 0; i < header->row_count; i++) {
		const struct xp_cfi_row *row = &rows[i];

		printf("%" PRIu32 " %s %u %d", row->pc, rules[row->rule], row->cfa, row->rbp);
		if (row->rule == XP_CFI_DEREF) {
			const struct xp_cfi_deref *deref = xp_cfi_deref(table, row);

			printf(" %u %" PRId32 " %" PRId32 " %u %" PRId32, deref->base, deref->offset, deref->add,
			       deref->rbp_base, deref->rbp_offset);
		}
		printf("\n");
	}
}

static int save(int fd, const char *path)
{
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	char bytes[4096];
	ssize_t n;

	if (to < 0 || lseek(fd, 0, SEEK_SET))
		return -1;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return -1;
	return n || close(to) ? -1 : 0;
}

int main(int argc, char **argv)
{
	int vdso = argc == 2 && !strcmp(argv[1], "--vdso");
	uint32_t start = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
	uint32_t end = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 0) : UINT32_MAX;
	int fd = argc != 2 && argc != 4 ? -1 : vdso ? xp_vdso_open() : open(argv[1], O_RDONLY);
	int to = memfd_create("cfi", MFD_ALLOW_SEALING), err;
	struct xp_cfi_table *table;

	if (fd < 0 || to < 0 || (vdso && save(fd, "vdso.so")))
		return 2;
	err = xp_cfi_build(fd, &(const struct xp_cfi_range){ start, end, start, end }, to);
	if (!err && fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK))
		return 2;
	if (!err)
		err = xp_cfi_table_open(&table, to);
	if (err) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
		return 1;
	}
	print(table);
	xp_cfi_table_free(table);
	return fflush(stdout) ? 2 : 0;
}
