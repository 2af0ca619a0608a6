// SPDX-License-Identifier: BSD-2-Clause
#include "report/elf_questions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "elf/sled_table.h"

/* The error of a reader that has started. */
static int error_of(enum xp_confined_end end)
{
	return end == XP_CONFINED_LATE ? -ETIMEDOUT : -ENOEXEC;
}

/* ---- facts: the bytes of struct xp_elf_facts, without the path ---- */

static int tell_facts(int fd, FILE *out, const void *arg)
{
	static struct xp_elf_facts facts;
	struct xp_elf_file image;
	char why[256];

	(void)arg;
	if (xp_elf_file_fd(&image, fd, why, sizeof(why)))
		return 1;
	facts.build_id_bytes = xp_elf_file_build_id(&image, facts.build_id, sizeof(facts.build_id));
	facts.segment_count = image.segment_count;
	memcpy(facts.segments, image.segments, sizeof(facts.segments));
	return fwrite(&facts, sizeof(facts), 1, out) == 1 ? 0 : 1;
}

static bool get_facts(struct xp_elf_facts *facts, FILE *in)
{
	return fread(facts, sizeof(*facts), 1, in) == 1 && facts->segment_count <= XP_ELF_SEGMENTS_MAX &&
	       facts->build_id_bytes <= sizeof(facts->build_id);
}

int xp_elf_ask_facts(struct xp_elf_facts *facts, const char *path, const struct xp_confined_limits *limits)
{
	struct xp_confined *confined;
	char real_path[PATH_MAX];
	bool good;
	int err;

	memset(facts, 0, sizeof(*facts));
	err = xp_confined_start(&confined, path, tell_facts, NULL, limits);
	if (err)
		return err;
	snprintf(real_path, sizeof(real_path), "%s", xp_confined_real_path(confined));
	good = get_facts(facts, xp_confined_answers(confined));
	if (!good)
		memset(facts, 0, sizeof(*facts));
	memcpy(facts->real_path, real_path, sizeof(real_path));
	err = error_of(xp_confined_end(confined));
	return good ? 0 : err;
}

/* ---- functions with sleds: struct answer, then the addresses ---- */

struct answer {
	uint64_t count;
	uint64_t listed;
	uint32_t build_id_bytes;
	uint8_t build_id[20];
};

static int tell_functions(int fd, FILE *out, const void *arg)
{
	const size_t *max = arg;
	struct xp_sled_table *table;
	struct answer answer = { 0 };
	char why[256];
	bool good;

	if (xp_sled_table_open(&table, fd, why, sizeof(why)))
		return 1;
	answer.count = table->function_count;
	answer.listed = XP_MIN(table->function_count, *max);
	answer.build_id_bytes = table->build_id_bytes;
	memcpy(answer.build_id, table->build_id, sizeof(answer.build_id));
	good = fwrite(&answer, sizeof(answer), 1, out) == 1;
	for (size_t i = 0; good && i < answer.listed; i++)
		good = fwrite(&table->functions[i].vaddr, sizeof(uint64_t), 1, out) == 1;
	return good ? 0 : 1;
}

static int get_functions(struct xp_elf_functions *functions, size_t max, FILE *in)
{
	struct answer answer;

	if (fread(&answer, sizeof(answer), 1, in) != 1 || answer.listed > max || answer.listed > answer.count ||
	    answer.build_id_bytes > sizeof(answer.build_id))
		return -ENOEXEC;
	functions->vaddrs = calloc(XP_MAX(answer.listed, (uint64_t)1), sizeof(*functions->vaddrs));
	if (!functions->vaddrs)
		return -ENOMEM;
	if (fread(functions->vaddrs, sizeof(*functions->vaddrs), answer.listed, in) != answer.listed)
		return -ENOEXEC;
	functions->count = answer.count;
	functions->listed = answer.listed;
	functions->build_id_bytes = answer.build_id_bytes;
	memcpy(functions->build_id, answer.build_id, sizeof(answer.build_id));
	return 0;
}

int xp_elf_ask_functions(struct xp_elf_functions *functions, const char *path, size_t max,
			 const struct xp_confined_limits *limits)
{
	struct xp_confined *confined;
	int err, end_err;

	memset(functions, 0, sizeof(*functions));
	err = xp_confined_start(&confined, path, tell_functions, &max, limits);
	if (err)
		return err;
	err = get_functions(functions, max, xp_confined_answers(confined));
	end_err = error_of(xp_confined_end(confined));
	if (!err)
		return 0;
	free(functions->vaddrs);
	functions->vaddrs = NULL;
	return err == -ENOMEM ? err : end_err;
}
