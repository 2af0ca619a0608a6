// SPDX-License-Identifier: BSD-2-Clause
#include "elf/questions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "elf/demangle.h"
#include "elf/sled_table.h"
#include "elf/symbols.h"

#define SOURCE_BYTES_MAX 4096

/* Returns the error for a reader that has started but failed. */
static int error_of(enum xp_confined_end end)
{
	return end == XP_CONFINED_LATE ? -ETIMEDOUT : -ENOEXEC;
}

/* ---- facts: the bytes of struct xp_elf_facts, except its path, which does not come from the child ---- */

static int tell_facts(int fd, FILE *out, const void *arg)
{
	static struct xp_elf_facts facts;
	struct xp_elf_file image;

	(void)arg;
	if (xp_elf_file_named(&image, fd))
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
	bool good;

	if (xp_sled_table_open(&table, fd))
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
 * ---- names: for each address, in order, a struct named, then its frames; at the end, enum xp_names_lack as a byte
 * ----
 *
 * A frame has texts by number. The first frame with a text is followed by it: few functions have many addresses.
 */

struct named {
	uint64_t vaddr;
	uint32_t frame_count;
};

struct named_frame {
	uint32_t line;
	uint32_t name; /* number of the string, from 1; 0: unknown; the next free number: new, and follows */
	uint32_t file;
};

/* Precedes the strings of a new name or file. */
struct told_text {
	uint32_t bytes;	       /* length of the text; 0: unknown */
	uint32_t symbol_bytes; /* length of the mangled symbol; 0: a file, or a name that is not mangled */
};

/* The texts sent so far, by the address of the string. libdw does not move its strings. */
struct telling {
	FILE *out;
	struct xp_u64_map texts;
};

static size_t bounded_length(const char *text, size_t max)
{
	return text ? strnlen(text, max) : 0;
}

/* Sets *number, and *is_new if the text must be sent. */
static bool number_text(struct telling *telling, const char *text, uint32_t *number, bool *is_new)
{
	uint32_t next = (uint32_t)telling->texts.count + 1;
	uint32_t *found = text ? xp_u64_map_add(&telling->texts, (uintptr_t)text, next) : NULL;

	*number = found ? *found : 0;
	*is_new = telling->texts.count == next;
	return found || !text;
}

static bool tell_text(FILE *out, const char *text, size_t max, const char *symbol)
{
	const struct told_text head = {
		.bytes = (uint32_t)bounded_length(text, max),
		.symbol_bytes = (uint32_t)bounded_length(symbol, max),
	};

	return fwrite(&head, sizeof(head), 1, out) == 1 && fwrite(text, 1, head.bytes, out) == head.bytes &&
	       fwrite(symbol ? symbol : "", 1, head.symbol_bytes, out) == head.symbol_bytes;
}

static bool tell_symbol(FILE *out, const char *symbol)
{
	char *demangled = xp_demangle(symbol);
	bool good = tell_text(out, demangled ? demangled : symbol, XP_DEMANGLED_BYTES_MAX, demangled ? symbol : NULL);

	free(demangled);
	return good;
}

static bool tell_frame(struct telling *telling, const struct xp_name_frame *frame)
{
	struct named_frame head = { .line = frame->line };
	bool new_name, new_file;

	return number_text(telling, frame->symbol, &head.name, &new_name) &&
	       number_text(telling, frame->file, &head.file, &new_file) &&
	       fwrite(&head, sizeof(head), 1, telling->out) == 1 &&
	       (!new_name || tell_symbol(telling->out, frame->symbol)) &&
	       (!new_file || tell_text(telling->out, frame->file, SOURCE_BYTES_MAX, NULL));
}

static bool tell_frames(struct telling *telling, uint64_t vaddr, const struct xp_name_frame *frames, size_t count)
{
	const struct named named = { .vaddr = vaddr, .frame_count = (uint32_t)count };
	bool good = fwrite(&named, sizeof(named), 1, telling->out) == 1;

	for (size_t i = 0; good && i < count; i++)
		good = tell_frame(telling, &frames[i]);
	return good;
}

/* Names the addresses of a file with only symbols. libdw rejects such files, because they have no segments. */
static int tell_symbols(int fd, struct telling *telling, const struct xp_elf_addresses *addresses)
{
	struct xp_function *functions = calloc(XP_MAX(addresses->count, (size_t)1), sizeof(*functions));
	struct xp_elf_file image;
	char *pool = NULL;
	bool good = functions && !xp_elf_file_fd(&image, fd);

	for (size_t i = 0; good && i < addresses->count; i++)
		functions[i].vaddr = addresses->vaddrs[i];
	good = good && !xp_symbols_name(&image, functions, addresses->count, &pool);
	for (size_t i = 0; good && i < addresses->count; i++) {
		const struct xp_name_frame frame = { .symbol = functions[i].name };

		good = tell_frames(telling, addresses->vaddrs[i], &frame, frame.symbol ? 1 : 0);
	}
	return good ? 0 : 1; /* the process exits next */
}

static int tell_names(int fd, FILE *out, const void *arg)
{
	const struct xp_elf_addresses *addresses = arg;
	struct xp_name_frame frames[XP_NAME_FRAMES_MAX];
	struct telling telling = { .out = out };
	struct xp_elf_names *names;
	bool good = true;
	int err = xp_elf_names_open(&names, fd, addresses->search_path, addresses->detail);

	if (err)
		return err == -EINVAL ? tell_symbols(fd, &telling, addresses) : 1;
	for (size_t i = 0; good && i < addresses->count; i++) {
		uint64_t vaddr = addresses->vaddrs[i];

		good = tell_frames(&telling, vaddr, frames, xp_elf_names_at(names, vaddr, frames));
	}
	return good && putc(xp_elf_names_lack(names), out) != EOF ? 0 : 1;
}

/* A received text. */
struct heard_text {
	const char *text;   /* NULL: unknown */
	const char *symbol; /* NULL: the text itself */
};

struct hearing {
	FILE *in;
	struct xp_text_pool *pool;
	struct heard_text *texts;
	size_t count;
	size_t room;
};

static bool hear_string(struct hearing *hearing, uint32_t bytes, const char **kept)
{
	char text[XP_DEMANGLED_BYTES_MAX + 1];

	*kept = NULL;
	if (bytes > XP_DEMANGLED_BYTES_MAX || (bytes && fread(text, bytes, 1, hearing->in) != 1))
		return false;
	text[bytes] = 0;
	xp_clean_text(text, sizeof(text), text);
	if (bytes)
		*kept = xp_text_pool_keep(hearing->pool, text);
	return true;
}

/* Sets *text to the text with this number. Reads a new text from the stream. */
static bool hear_text(struct hearing *hearing, uint32_t number, struct heard_text *text)
{
	struct told_text head;

	*text = (struct heard_text){ 0 };
	if (!number)
		return true;
	if (number <= hearing->count) {
		*text = hearing->texts[number - 1];
		return true;
	}
	if (number - 1 > hearing->count || XP_ARRAY_RESERVE(hearing->texts, hearing->room, hearing->count + 1) ||
	    fread(&head, sizeof(head), 1, hearing->in) != 1 || !hear_string(hearing, head.bytes, &text->text) ||
	    !hear_string(hearing, head.symbol_bytes, &text->symbol))
		return false;
	hearing->texts[hearing->count++] = *text;
	return true;
}

static bool hear_frame(struct hearing *hearing, struct xp_source_frame *frame)
{
	struct heard_text name, file;
	struct named_frame head;

	if (fread(&head, sizeof(head), 1, hearing->in) != 1 || !hear_text(hearing, head.name, &name) ||
	    !hear_text(hearing, head.file, &file))
		return false;
	*frame = (struct xp_source_frame){ name.text, name.symbol, file.text, head.line };
	return true;
}

static bool hear_frames(struct hearing *hearing, uint64_t vaddr, struct xp_source_frame *frames, uint32_t *count)
{
	struct named named;

	if (fread(&named, sizeof(named), 1, hearing->in) != 1 || named.vaddr != vaddr ||
	    named.frame_count > XP_NAME_FRAMES_MAX)
		return false;
	*count = named.frame_count;
	for (uint32_t i = 0; i < named.frame_count; i++)
		if (!hear_frame(hearing, &frames[i]))
			return false;
	return true;
}

/* Reads the reason for missing names. The reader of a file with only symbols does not send one. */
static int hear_lack(FILE *in)
{
	int lack = getc(in);

	return lack > 0 && lack < XP_NAMES_LACKS ? lack : 0;
}

int xp_elf_ask_names(const char *path, const struct xp_elf_addresses *addresses,
		     const struct xp_confined_limits *limits, const struct xp_elf_named *named)
{
	struct xp_source_frame frames[XP_NAME_FRAMES_MAX];
	struct hearing hearing = { .pool = named->texts };
	struct xp_confined *confined;
	uint32_t count;
	size_t i = 0;
	int err = xp_confined_start(&confined, path, tell_names, addresses, limits);

	if (err)
		return err;
	hearing.in = xp_confined_answers(confined);
	for (; !err && i < addresses->count; i++) {
		if (!hear_frames(&hearing, addresses->vaddrs[i], frames, &count))
			break;
		err = named->add(named->arg, addresses->vaddrs[i], frames, count);
	}
	if (!err && i == addresses->count)
		err = hear_lack(hearing.in);
	free(hearing.texts);
	if (xp_confined_end(confined) == XP_CONFINED_LATE)
		err = -ETIMEDOUT;
	return err;
}
