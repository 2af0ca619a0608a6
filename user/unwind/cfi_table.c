// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/cfi_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sys/stat.h>

/* The rows of a bucket are in one or two cache lines. The index needs a sixteenth of the memory of the rows. */
#define ROWS_PER_BUCKET 8

struct xp_cfi_table {
	const struct xp_cfi_header *header; /* mapped */
	size_t mapped_bytes;
	const struct xp_cfi_row *rows;
	const struct xp_cfi_deref *derefs;
	uint32_t base; /* pc of the first row */
	uint32_t last; /* pc of the last row */
	unsigned int bucket_shift;
	size_t bucket_count;
	uint32_t *buckets; /* the row that holds at the start of each bucket, then the last row */
};

static const struct xp_cfi_row none;

static int map(struct xp_cfi_table *table, int fd)
{
	const int needed = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *bytes;

	if (seals < 0 || (seals & needed) != needed)
		return -EPERM;
	if (fstat(fd, &st))
		return -errno;
	if (st.st_size < (off_t)sizeof(struct xp_cfi_header))
		return -EBADMSG;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	table->header = bytes;
	table->mapped_bytes = (size_t)st.st_size;
	return 0;
}

static bool check_header(struct xp_cfi_table *table)
{
	const struct xp_cfi_header *header = table->header;

	if (header->magic != XP_CFI_MAGIC || !header->row_count || header->row_count > XP_CFI_ROWS_MAX ||
	    header->deref_count > UINT16_MAX + 1u || header->is_wide > 1 || header->pad)
		return false;
	table->rows = (const struct xp_cfi_row *)(header + 1);
	table->derefs = (const struct xp_cfi_deref *)(table->rows + header->row_count);
	return table->mapped_bytes == sizeof(*header) + header->row_count * sizeof(struct xp_cfi_row) +
					  header->deref_count * sizeof(struct xp_cfi_deref);
}

static bool check_deref(const struct xp_cfi_deref *deref)
{
	return (deref->base == XP_CFI_BASE_RSP || deref->base == XP_CFI_BASE_RBP) &&
	       deref->rbp_base <= XP_CFI_BASE_RBP && !deref->pad &&
	       (deref->rbp_base != XP_CFI_BASE_CFA || !deref->rbp_offset);
}

static bool check_row(const struct xp_cfi_table *table, const struct xp_cfi_row *row)
{
	switch ((enum xp_cfi_rule)row->rule) {
	case XP_CFI_NONE:
	case XP_CFI_SIGNAL:
	case XP_CFI_END:
	case XP_CFI_CLONE:
	case XP_CFI_SWITCH:
		return !row->cfa && !row->rbp;
	case XP_CFI_RSP:
	case XP_CFI_RBP:
		return true;
	case XP_CFI_REG:
		return XP_CFI_REG_OF(row->cfa) != XP_CFI_REG_RBP && XP_CFI_REG_OF(row->cfa) != XP_CFI_REG_RSP;
	case XP_CFI_PLT:
		return row->cfa >= 1 && row->cfa <= 15;
	case XP_CFI_DEREF:
		return row->cfa < table->header->deref_count &&
		       (table->derefs[row->cfa].rbp_base == XP_CFI_BASE_CFA || !row->rbp);
	case XP_CFI_RULES:
		break;
	}
	return false;
}

static bool check(struct xp_cfi_table *table)
{
	const struct xp_cfi_header *header;

	if (!check_header(table))
		return false;
	header = table->header;
	for (uint32_t i = 0; i < header->deref_count; i++)
		if (!check_deref(&table->derefs[i]))
			return false;
	for (uint32_t i = 0; i < header->row_count; i++)
		if ((i && table->rows[i].pc <= table->rows[i - 1].pc) || !check_row(table, &table->rows[i]))
			return false;
	return table->rows[header->row_count - 1].rule == XP_CFI_NONE;
}

static int make_buckets(struct xp_cfi_table *table)
{
	uint32_t count = table->header->row_count, row = 0;
	uint64_t span, start;

	table->base = table->rows[0].pc;
	table->last = table->rows[count - 1].pc;
	span = table->last - table->base;
	while (span >> table->bucket_shift > count / ROWS_PER_BUCKET)
		table->bucket_shift++;
	table->bucket_count = (span >> table->bucket_shift) + 1;
	table->buckets = malloc((table->bucket_count + 1) * sizeof(*table->buckets));
	if (!table->buckets)
		return -ENOMEM;
	start = table->base;
	for (size_t i = 0; i < table->bucket_count; i++, start += 1ull << table->bucket_shift) {
		while (row + 1 < count && table->rows[row + 1].pc <= start)
			row++;
		table->buckets[i] = row;
	}
	table->buckets[table->bucket_count] = count - 1;
	return 0;
}

int xp_cfi_table_open(struct xp_cfi_table **table, int fd)
{
	struct xp_cfi_table *new = calloc(1, sizeof(*new));
	int err = new ? map(new, fd) : -ENOMEM;

	if (!err && !check(new))
		err = -EBADMSG;
	if (!err)
		err = make_buckets(new);
	if (err) {
		xp_cfi_table_free(new);
		new = NULL;
	}
	*table = new;
	return err;
}

void xp_cfi_table_free(struct xp_cfi_table *table)
{
	if (!table)
		return;
	if (table->header)
		munmap((void *)table->header, table->mapped_bytes);
	free(table->buckets);
	free(table);
}

/*
 * Kernel memory of a memfd and its mapping, in addition to the pages. Without this, thousands of empty tables would
 * count as 0 bytes.
 */
#define KERNEL_BYTES 1024

size_t xp_cfi_table_bytes(const struct xp_cfi_table *table)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return sizeof(*table) + KERNEL_BYTES + (table->mapped_bytes + page - 1) / page * page +
	       (table->bucket_count + 1) * sizeof(*table->buckets);
}

const struct xp_cfi_header *xp_cfi_table_header(const struct xp_cfi_table *table)
{
	return table->header;
}

const struct xp_cfi_row *xp_cfi_find(const struct xp_cfi_table *table, uint64_t file_offset)
{
	uint32_t low, high;
	size_t bucket;

	if (file_offset < table->base || file_offset >= table->last)
		return &none;
	bucket = (file_offset - table->base) >> table->bucket_shift;
	low = table->buckets[bucket];
	high = table->buckets[bucket + 1];
	while (low < high) {
		uint32_t middle = high - (high - low) / 2;

		if (table->rows[middle].pc <= file_offset)
			low = middle;
		else
			high = middle - 1;
	}
	return &table->rows[low];
}

const struct xp_cfi_deref *xp_cfi_deref(const struct xp_cfi_table *table, const struct xp_cfi_row *row)
{
	return &table->derefs[row->cfa];
}
