// SPDX-License-Identifier: BSD-2-Clause
#include "elf/questions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "elf/demangle.h"
#include "elf/sled_table.h"
#include "elf/symbols.h"

#define SOURCE_BYTES_MAX 4096

/* The error of a reader that has started. */
static int error_of(enum xp_confined_end end)
{
	return end == XP_CONFINED_LATE ? -ETIMEDOUT : -ENOEXEC;
}

/* ---- facts: the bytes of struct xp_elf_facts; its path is not the child's to tell ---- */

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
	bool good;
	int err;

	memset(facts, 0, sizeof(*facts));
	err = xp_confined_start(&confined, path, tell_facts, NULL, limits);
	if (err)
		return err;
	good = get_facts(facts, xp_confined_answers(confined));
	if (!good)
		memset(facts, 0, sizeof(*facts));
	facts->real_path = strdup(xp_confined_real_path(confined));
	err = error_of(xp_confined_end(confined));
	if (!facts->real_path)
		return -ENOMEM;
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

/*
 * ---- names: for each address, in order, a struct named, then per frame a struct named_frame and three strings ----
 */

struct named {
	uint64_t vaddr;
	uint32_t frame_count;
};

struct named_frame {
	uint32_t line;
	uint32_t function_bytes; /* 0: unknown */
	uint32_t symbol_bytes;	 /* 0: the same as the function */
	uint32_t file_bytes;
};

static size_t bounded_length(const char *text, size_t max)
{
	return text ? strnlen(text, max) : 0;
}

static bool tell_frame(FILE *out, const struct xp_name_frame *frame)
{
	char *demangled = frame->symbol ? xp_demangle(frame->symbol) : NULL;
	const char *function = demangled ? demangled : frame->symbol;
	struct named_frame head = {
		.line = frame->line,
		.function_bytes = (uint32_t)bounded_length(function, XP_DEMANGLED_BYTES_MAX),
		.symbol_bytes = demangled ? (uint32_t)bounded_length(frame->symbol, XP_DEMANGLED_BYTES_MAX) : 0,
		.file_bytes = (uint32_t)bounded_length(frame->file, SOURCE_BYTES_MAX),
	};
	bool good = fwrite(&head, sizeof(head), 1, out) == 1;

	if (head.function_bytes)
		good &= fwrite(function, head.function_bytes, 1, out) == 1;
	if (head.symbol_bytes)
		good &= fwrite(frame->symbol, head.symbol_bytes, 1, out) == 1;
	if (head.file_bytes)
		good &= fwrite(frame->file, head.file_bytes, 1, out) == 1;
	free(demangled);
	return good;
}

static bool tell_frames(FILE *out, uint64_t vaddr, const struct xp_name_frame *frames, size_t count)
{
	const struct named named = { .vaddr = vaddr, .frame_count = (uint32_t)count };
	bool good = fwrite(&named, sizeof(named), 1, out) == 1;

	for (size_t i = 0; good && i < count; i++)
		good = tell_frame(out, &frames[i]);
	return good;
}

/* Handles files with only names. libdw rejects them, since they have no segments. */
static int tell_symbols(int fd, FILE *out, const struct xp_elf_addresses *addresses)
{
	struct xp_function *functions = calloc(XP_MAX(addresses->count, (size_t)1), sizeof(*functions));
	struct xp_elf_file image;
	char *pool = NULL;
	bool good = functions && !xp_elf_file_fd(&image, fd, NULL, 0);

	for (size_t i = 0; good && i < addresses->count; i++)
		functions[i].vaddr = addresses->vaddrs[i];
	good = good && !xp_symbols_name(&image, functions, addresses->count, &pool);
	for (size_t i = 0; good && i < addresses->count; i++) {
		const struct xp_name_frame frame = { .symbol = functions[i].name };

		good = tell_frames(out, addresses->vaddrs[i], &frame, frame.symbol ? 1 : 0);
	}
	return good ? 0 : 1; /* the process ends next */
}

static int tell_names(int fd, FILE *out, const void *arg)
{
	const struct xp_elf_addresses *addresses = arg;
	struct xp_name_frame frames[XP_NAME_FRAMES_MAX];
	struct xp_elf_names *names;
	bool good = true;
	int err = xp_elf_names_open(&names, fd, addresses->search_path, addresses->detail);

	if (err)
		return err == -EINVAL ? tell_symbols(fd, out, addresses) : 1;
	for (size_t i = 0; good && i < addresses->count; i++) {
		uint64_t vaddr = addresses->vaddrs[i];

		good = tell_frames(out, vaddr, frames, xp_elf_names_at(names, vaddr, frames));
	}
	return good ? 0 : 1;
}

static bool get_text(struct xp_text_pool *texts, FILE *in, uint32_t bytes, size_t max, const char **kept)
{
	char text[XP_DEMANGLED_BYTES_MAX + 1], clean[sizeof(text)];

	*kept = NULL;
	if (bytes > max || (bytes && fread(text, bytes, 1, in) != 1))
		return false;
	if (!bytes)
		return true;
	text[bytes] = 0;
	xp_clean_text(clean, sizeof(clean), text);
	*kept = xp_text_pool_keep(texts, clean);
	return true;
}

static bool get_frame(struct xp_text_pool *texts, FILE *in, struct xp_source_frame *frame)
{
	struct named_frame head;

	if (fread(&head, sizeof(head), 1, in) != 1)
		return false;
	frame->line = head.line;
	return get_text(texts, in, head.function_bytes, XP_DEMANGLED_BYTES_MAX, &frame->function) &&
	       get_text(texts, in, head.symbol_bytes, XP_DEMANGLED_BYTES_MAX, &frame->symbol) &&
	       get_text(texts, in, head.file_bytes, SOURCE_BYTES_MAX, &frame->file);
}

static bool get_frames(struct xp_text_pool *texts, FILE *in, uint64_t vaddr, struct xp_source_frame *frames,
		       uint32_t *count)
{
	struct named named;

	if (fread(&named, sizeof(named), 1, in) != 1 || named.vaddr != vaddr || named.frame_count > XP_NAME_FRAMES_MAX)
		return false;
	*count = named.frame_count;
	for (uint32_t i = 0; i < named.frame_count; i++)
		if (!get_frame(texts, in, &frames[i]))
			return false;
	return true;
}

int xp_elf_ask_names(const char *path, const struct xp_elf_addresses *addresses,
		     const struct xp_confined_limits *limits, const struct xp_elf_named *named)
{
	struct xp_source_frame frames[XP_NAME_FRAMES_MAX];
	struct xp_confined *confined;
	uint32_t count;
	int err = xp_confined_start(&confined, path, tell_names, addresses, limits);

	if (err)
		return err;
	for (size_t i = 0; !err && i < addresses->count; i++) {
		if (!get_frames(named->texts, xp_confined_answers(confined), addresses->vaddrs[i], frames, &count))
			break;
		err = named->add(named->arg, addresses->vaddrs[i], frames, count);
	}
	if (xp_confined_end(confined) == XP_CONFINED_LATE)
		err = -ETIMEDOUT;
	return err;
}
