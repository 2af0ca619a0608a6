// SPDX-License-Identifier: BSD-2-Clause
#include "functions/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/confined.h"
#include "base/text.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/go_functions.h"
#include "elf/symbols.h"

#define REASON_BYTES 200
#define NAMES_BYTES_MAX (1ull << 30)
#define FUNCTIONS_MAX (1u << 24)
#define NAMES_MAX (1u << 25)
#define OBJECT_NAME_BYTES 400
#define SITES_MAX (1u << 27) /* each has 16 bytes */

/* libLLVM 19, with 118,000 functions and 45 MB of code, takes 5 s and 290 MB. */
static const struct xp_confined_limits limits = {
	.ns = 120ull * 1000 * 1000 * 1000,
	.cpu_seconds = 60,
	.address_bytes = (rlim_t)8 << 30,
};

/* The answer: struct head; sites; windows; for each function, struct told and its names, each with its size. */
struct head {
	int32_t err; /* an error: then only its message follows */
	char why[REASON_BYTES];
	uint64_t count;
	uint64_t site_count;
	uint64_t window_count;
	struct xp_elf_segment code;
	bool is_go;
	uint64_t start;
	bool has_rseq;
	uint32_t build_id_bytes;
	uint8_t build_id[20];
};

struct told {
	struct xp_call_plan_function plan;
	uint32_t name_count;
};

/* The names of all functions. Each kind of name has a pool. */
struct all_names {
	struct xp_function *shown;
	struct xp_symbol_alias *aliases; /* by function */
	size_t alias_count;
};

/* ---- the reader ---- */

static bool tell_name(FILE *out, const char *name)
{
	const uint32_t bytes = (uint32_t)strlen(name);

	return fwrite(&bytes, sizeof(bytes), 1, out) == 1 && fwrite(name, 1, bytes, out) == bytes;
}

static bool is_other_name(const struct all_names *names, size_t alias, size_t function)
{
	return names->aliases[alias].function == function &&
	       strcmp(names->aliases[alias].name, names->shown[function].name) != 0;
}

/* *alias: index of the function's first name; afterwards of the next function's. */
static bool tell_function(FILE *out, const struct xp_call_plan_function *plan, const struct all_names *names,
			  size_t function, size_t *alias)
{
	struct told told = { .plan = *plan };
	size_t first = *alias;
	bool good;

	told.name_count = names->shown && names->shown[function].name;
	for (; *alias < names->alias_count && names->aliases[*alias].function == function; ++*alias)
		told.name_count += told.name_count && is_other_name(names, *alias, function);
	good = fwrite(&told, sizeof(told), 1, out) == 1;
	if (told.name_count)
		good = good && tell_name(out, names->shown[function].name);
	for (size_t i = first; i < *alias && told.name_count; i++)
		good = good && (!is_other_name(names, i, function) || tell_name(out, names->aliases[i].name));
	return good;
}

static int by_function(const void *a, const void *b)
{
	const struct xp_symbol_alias *left = a, *right = b;

	return xp_compare(left->function, right->function) ?: strcmp(left->name, right->name);
}

/* Names the functions of a Go program from the table of its runtime, because the symbols may be stripped. */
static struct all_names name_go_functions(struct xp_elf_file *file, struct all_names names, size_t count)
{
	struct xp_go_functions go;

	if (xp_go_functions_read(&go, file))
		return (struct all_names){ 0 };
	for (size_t i = 0; i < count; i++) {
		const struct xp_go_function *function = xp_go_functions_find(&go, names.shown[i].vaddr);

		if (function && *function->name)
			names.shown[i].name = function->name;
	}
	return names;
}

/* Plans a file even if names are missing. Does not free the names: the process exits soon. */
static struct all_names name_functions(struct xp_elf_file *file, const struct xp_call_plan *plan)
{
	struct all_names names = { .shown = calloc(XP_MAX(plan->function_count, (size_t)1), sizeof(*names.shown)) };
	char *pool;

	for (size_t i = 0; names.shown && i < plan->function_count; i++)
		names.shown[i].vaddr = plan->functions[i].vaddr;
	if (names.shown && xp_elf_file_is_go(file))
		return name_go_functions(file, names, plan->function_count);
	if (!names.shown || xp_symbols_name(file, names.shown, plan->function_count, &pool) ||
	    xp_symbols_aliases(file, names.shown, plan->function_count, &names.aliases, &names.alias_count, &pool))
		return (struct all_names){ 0 };
	qsort(names.aliases, names.alias_count, sizeof(*names.aliases), by_function);
	return names;
}

static int tell_plan(FILE *out, struct xp_elf_file *file, const struct xp_call_plan *plan, bool has_symbols)
{
	const struct all_names names = has_symbols ? name_functions(file, plan) : (struct all_names){ 0 };
	size_t alias = 0;
	struct head head = { .count = plan->function_count,
			     .site_count = plan->site_count,
			     .window_count = plan->window_count,
			     .is_go = xp_elf_file_is_go(file) };
	GElf_Shdr header;
	GElf_Ehdr elf;
	bool good;

	if (gelf_getehdr(file->elf, &elf) && xp_elf_file_segment(file, elf.e_entry, 1))
		head.start = elf.e_entry;
	head.has_rseq = xp_elf_file_section(file, "__rseq_cs", 0, &header);
	if (file->segment_count == 1)
		head.code = file->segments[0];
	head.build_id_bytes = (uint32_t)xp_elf_file_build_id(file, head.build_id, sizeof(head.build_id));
	good = fwrite(&head, sizeof(head), 1, out) == 1 &&
	       fwrite(plan->sites, sizeof(*plan->sites), plan->site_count, out) == plan->site_count &&
	       fwrite(plan->windows, sizeof(*plan->windows), plan->window_count, out) == plan->window_count;
	for (size_t i = 0; good && i < plan->function_count; i++)
		good = tell_function(out, &plan->functions[i], &names, i, &alias);
	return good ? 0 : 1;
}

static int read_plan(int fd, FILE *out, const void *arg)
{
	static struct xp_elf_file file;
	const bool *has_symbols = arg;
	struct xp_call_plan plan = { 0 };
	struct head head = { 0 };

	head.err = xp_elf_file_fd(&file, fd);
	if (!head.err)
		head.err = xp_call_plan_make(&plan, &file);
	if (!head.err)
		return tell_plan(out, &file, &plan, *has_symbols);
	snprintf(head.why, sizeof(head.why), "%s", xp_why(head.err));
	return fwrite(&head, sizeof(head), 1, out) == 1 ? 0 : 1;
}

/* ---- the caller ---- */

/* Returns whether [first, first + count) is part of the array. */
static bool is_part(uint64_t first, uint64_t count, uint64_t all)
{
	return !count || (first < all && count <= all - first);
}

static bool has_sane_windows(const struct xp_planned *planned, const struct xp_call_plan_function *function)
{
	const struct xp_elf_segment *code = &planned->code;

	for (uint32_t i = 0; i < function->window_count && code->bytes; i++) {
		const struct xp_call_plan_window *window = &planned->plan.windows[function->first_window + i];

		if (window->bytes < (window->spring ? XP_SPRING_BYTES : XP_WINDOW_BYTES) ||
		    window->bytes > XP_WINDOW_BYTES_MAX ||
		    !is_part(window->vaddr - code->vaddr, window->bytes, code->bytes) ||
		    (window->spring && !is_part(window->spring - code->vaddr, XP_WINDOW_BYTES, code->bytes)))
			return false;
	}
	return true;
}

static bool has_sane_sites(const struct xp_planned *planned, const struct xp_call_plan_function *function)
{
	const struct xp_call_plan_site *sites = planned->plan.sites + function->first_site;

	for (uint32_t i = 0; i < function->site_count; i++) {
		if ((sites[i].kind == XP_SITE_ENTRY) != !i || sites[i].kind > XP_SITE_CONDITIONAL_TAIL ||
		    sites[i].condition > 15)
			return false;
		if (sites[i].window == XP_NO_WINDOW
			? !i && function->way == XP_CALL_PLAN_PATCHED
			: sites[i].window - function->first_window >= function->window_count)
			return false;
	}
	return true;
}

static bool is_sane(const struct xp_planned *planned, const struct xp_call_plan_function *function)
{
	return function->way <= XP_CALL_PLAN_REFUSED && function->reason < XP_CALL_PLAN_REASONS &&
	       (function->way == XP_CALL_PLAN_REFUSED) == (function->reason != XP_CALL_PLAN_OK) &&
	       (function->way == XP_CALL_PLAN_REFUSED) == !function->site_count &&
	       function->exit_count + (function->site_count > 0) == function->site_count &&
	       function->probe_count <= function->exit_count &&
	       is_part(function->first_site, function->site_count, planned->plan.site_count) &&
	       is_part(function->first_window, function->window_count, planned->plan.window_count) &&
	       has_sane_windows(planned, function) && has_sane_sites(planned, function);
}

static int add_name(struct xp_planned *planned, const char *name)
{
	const char *kept = xp_text_pool_keep(&planned->text, name);

	if (!kept || XP_ARRAY_RESERVE(planned->names, planned->name_room, planned->name_count + 1))
		return -ENOMEM;
	planned->names[planned->name_count++] = kept;
	return 0;
}

static int hear_name(struct xp_planned *planned, FILE *in)
{
	static char name[XP_SYMBOL_BYTES_MAX + 1];
	uint32_t bytes;

	if (fread(&bytes, sizeof(bytes), 1, in) != 1 || !bytes || bytes >= sizeof(name) ||
	    fread(name, 1, bytes, in) != bytes || planned->name_count == NAMES_MAX)
		return -ENOEXEC;
	name[bytes] = 0;
	return add_name(planned, name);
}

static int name_by_place(struct xp_planned *planned, size_t index, const char *path)
{
	char name[OBJECT_NAME_BYTES + sizeof("+0x0123456789abcdef")];
	const char *slash = strrchr(path, '/'), *object = slash ? slash + 1 : path;

	snprintf(name, sizeof(name), "%.*s+0x%" PRIx64, (int)xp_text_fit(object, OBJECT_NAME_BYTES), object,
		 planned->plan.functions[index].vaddr);
	return add_name(planned, name);
}

static int hear_function(struct xp_planned *planned, size_t index, const char *path, FILE *in)
{
	struct told told;
	int err = 0;

	if (fread(&told, sizeof(told), 1, in) != 1 || !is_sane(planned, &told.plan))
		return -ENOEXEC;
	planned->plan.functions[index] = told.plan;
	for (uint32_t i = 0; i < told.name_count && !err; i++)
		err = hear_name(planned, in);
	if (!err && !told.name_count)
		err = name_by_place(planned, index, path);
	planned->first_name[index + 1] = (uint32_t)planned->name_count;
	return err;
}

static int hear_arrays(struct xp_planned *planned, const struct head *head, FILE *in)
{
	struct xp_call_plan *plan = &planned->plan;

	plan->functions = calloc(XP_MAX(head->count, (uint64_t)1), sizeof(*plan->functions));
	planned->first_name = calloc(head->count + 1, sizeof(*planned->first_name));
	plan->sites = calloc(XP_MAX(head->site_count, (uint64_t)1), sizeof(*plan->sites));
	plan->windows = calloc(XP_MAX(head->window_count, (uint64_t)1), sizeof(*plan->windows));
	if (!plan->functions || !planned->first_name || !plan->sites || !plan->windows)
		return -ENOMEM;
	plan->site_count = head->site_count;
	plan->window_count = head->window_count;
	return fread(plan->sites, sizeof(*plan->sites), plan->site_count, in) == plan->site_count &&
		       fread(plan->windows, sizeof(*plan->windows), plan->window_count, in) == plan->window_count
		   ? 0
		   : -ENOEXEC;
}

static int hear_plan(struct xp_planned *planned, const char *path, FILE *in)
{
	struct head head;
	int err;

	if (fread(&head, sizeof(head), 1, in) != 1 || head.build_id_bytes > sizeof(head.build_id) ||
	    head.count > FUNCTIONS_MAX || head.site_count > SITES_MAX || head.window_count > SITES_MAX)
		return -ENOEXEC;
	head.why[REASON_BYTES - 1] = 0;
	if (head.err)
		return xp_why_set(head.err < 0 ? head.err : -ENOEXEC, "%s", head.why);
	planned->code = head.code;
	planned->is_go = head.is_go;
	planned->start = is_part(head.start - head.code.vaddr, 1, head.code.bytes) ? head.start : 0;
	planned->has_rseq = head.has_rseq;
	planned->build_id_bytes = head.build_id_bytes;
	memcpy(planned->build_id, head.build_id, sizeof(head.build_id));
	err = hear_arrays(planned, &head, in);
	for (; !err && planned->plan.function_count < head.count; planned->plan.function_count++)
		err = hear_function(planned, planned->plan.function_count, path, in);
	return err;
}

int xp_planned_ask(struct xp_planned *planned, int fd, const char *path, bool has_symbols)
{
	struct xp_confined *confined;
	int err;

	*planned = (struct xp_planned){ .text = { .bytes_max = NAMES_BYTES_MAX } };
	xp_why_clear();
	err = xp_confined_start_fd(&confined, fd, read_plan, &has_symbols, &limits);
	if (err)
		return err;
	err = hear_plan(planned, path, xp_confined_answers(confined));
	if (xp_confined_end(confined) == XP_CONFINED_LATE)
		return xp_why_set(-ETIMEDOUT, "its functions were not planned in time");
	if (err && !xp_why_has(err))
		return xp_why_set(err, "its functions cannot be planned: the process that reads it failed");
	return err;
}

const char *xp_planned_name(const struct xp_planned *planned, size_t function)
{
	return planned->names[planned->first_name[function]];
}

void xp_planned_free(struct xp_planned *planned)
{
	xp_call_plan_free(&planned->plan);
	free(planned->names);
	free(planned->first_name);
	xp_text_pool_free(&planned->text);
}
