// SPDX-License-Identifier: BSD-2-Clause
/* `xprof list`: lists the functions of processes and files, and how their calls can be recorded, or all sleds. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_view.h"
#include "base/why.h"
#include "commands.h"
#include "elf/demangle.h"
#include "elf/sled_table.h"
#include "elf/usdt.h"
#include "functions/ask.h"
#include "model/json_data.h"
#include "option_parts.h"
#include "target/chosen_file.h"
#include "target/target.h"

#define HOW_TO_BUILD "build with clang -fxray-instrument (add -fxray-instruction-threshold=1 for all functions)"

/* State shared by the objects of one operand. */
struct listing {
	bool sleds; /* --sleds: a line per sled, without functions that have no sleds */
	bool json;
	uint32_t fn_base; /* number of functions in earlier objects: IDs in a process continue from object to object */
	size_t objects;
};

/* An ELF file. */
struct object {
	const char *path;
	struct xp_sled_table *table; /* NULL: no sleds */
	struct xp_planned planned;   /* without sleds */
	bool is_planned;
	struct xp_usdt_probes usdt;
};

/* How calls of a function can be recorded. */
enum way { WAY_SLED, WAY_PATCHED, WAY_PARTLY, WAY_PROBES, WAY_REFUSED, WAYS };

static const char *const way_names[WAYS] = { "sled", "patched", "partly", "probes", "refused" };

static const char *const register_names[16] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
						"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };
static const char *const condition_names[16] = { "o", "no", "b", "ae", "e", "ne", "be", "a",
						 "s", "ns", "p", "np", "l", "ge", "le", "g" };

/* Prints the name, and ends the line. */
static void print_name(const char *name)
{
	char *demangled = name ? xp_demangle(name) : NULL;

	xp_put_line(stdout, "%s", demangled ? demangled : name ? name : "-");
	free(demangled);
}

static enum way way_of(const struct xp_call_plan_function *plan)
{
	if (plan->way == XP_CALL_PLAN_PATCHED)
		return plan->probe_count ? WAY_PARTLY : WAY_PATCHED;
	return plan->way == XP_CALL_PLAN_PROBES ? WAY_PROBES : WAY_REFUSED;
}

static void print_build_id(const uint8_t *id, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		xp_put(stdout, "%02x", id[i]);
}

static void print_heading(const struct listing *listing, const char *path, const struct xp_sled_table *table)
{
	if (listing->objects)
		putchar('\n');
	xp_put(stdout, "# %s: %zu function%s, %zu sled%s, map version %u", path, table->function_count,
	       xp_plural_s(table->function_count), table->sled_count, xp_plural_s(table->sled_count),
	       table->map_version);
	if (table->build_id_bytes)
		xp_put(stdout, ", build id ");
	print_build_id(table->build_id, table->build_id_bytes);
	putchar('\n');
}

static void print_functions(const struct listing *listing, const struct xp_sled_table *table)
{
	size_t sled = 0;

	xp_put_line(stdout, "#%7s %6s %6s %6s %6s %6s %6s  %-18s %s", "id", "entry", "exit", "tail", "args", "custom",
		    "typed", "address", "name");
	for (size_t i = 0; i < table->function_count; i++) {
		size_t kinds[XP_SLED_KINDS] = { 0 };

		for (; sled < table->sled_count && table->sleds[sled].function_id == i + 1; sled++)
			kinds[table->sleds[sled].kind]++;
		xp_put(stdout, "%8zu", listing->fn_base + i + 1);
		for (size_t kind = 0; kind < XP_SLED_KINDS; kind++)
			xp_put(stdout, " %6zu", kinds[kind]);
		xp_put(stdout, "  0x%016" PRIx64 " ", table->functions[i].vaddr);
		print_name(table->functions[i].name);
	}
}

static void print_details(const struct xp_sled *sled)
{
	const uint8_t *operands = sled->operands;

	if (sled->conditional)
		xp_put(stdout, "if=%s ", condition_names[sled->condition]);
	if (!sled->intact)
		return;
	if (sled->kind == XP_SLED_CUSTOM_EVENT)
		xp_put(stdout, "data=%s size=%s ", register_names[operands[0]], register_names[operands[1]]);
	if (sled->kind == XP_SLED_TYPED_EVENT)
		xp_put(stdout, "type=%s data=%s size=%s ", register_names[operands[0]], register_names[operands[1]],
		       register_names[operands[2]]);
}

static void print_sleds(const struct listing *listing, const struct xp_sled_table *table)
{
	xp_put_line(stdout, "#%7s %-6s %-18s %-18s %-7s %s", "id", "kind", "address", "offset", "bytes",
		    "details, name");
	for (size_t i = 0; i < table->sled_count; i++) {
		const struct xp_sled *sled = &table->sleds[i];

		xp_put(stdout, "%8u %-6s 0x%016" PRIx64 " 0x%016" PRIx64 " %-7s ", listing->fn_base + sled->function_id,
		       xp_sled_kind_name(sled->kind), sled->vaddr, sled->file_offset,
		       sled->intact ? "intact" : "other");
		print_details(sled);
		print_name(table->functions[sled->function_id - 1].name);
	}
}

/* ---- functions without sleds ---- */

static void print_planned_heading(const struct listing *listing, const struct object *object, const size_t counts[WAYS])
{
	size_t count = 0;

	for (size_t way = WAY_PATCHED; way < WAYS; way++)
		count += counts[way];
	if (listing->objects)
		putchar('\n');
	xp_put(stdout, "# %s: %zu function%s %s: %zu patched, %zu partly, %zu probes, %zu refused", object->path, count,
	       xp_plural_s(count), object->planned.is_go ? "of a Go program (probes only)" : "without sleds",
	       counts[WAY_PATCHED], counts[WAY_PARTLY], counts[WAY_PROBES], counts[WAY_REFUSED]);
	if (object->planned.build_id_bytes)
		xp_put(stdout, ", build id ");
	print_build_id(object->planned.build_id, object->planned.build_id_bytes);
	xp_put_line(stdout, "%s", "");
	xp_put_line(stdout, "#%7s %6s %6s  %-18s %s", "calls", "exits", "probes", "address", "name");
}

static void count_ways(const struct object *object, size_t counts[WAYS])
{
	const struct xp_planned *planned = &object->planned;

	counts[WAY_SLED] = object->table ? object->table->function_count : 0;
	for (size_t i = 0; i < planned->plan.function_count; i++)
		counts[way_of(&planned->plan.functions[i])]++;
}

static void print_planned(const struct listing *listing, const struct object *object)
{
	const struct xp_planned *planned = &object->planned;
	size_t counts[WAYS] = { 0 };

	count_ways(object, counts);
	print_planned_heading(listing, object, counts);
	for (size_t i = 0; i < planned->plan.function_count; i++) {
		const struct xp_call_plan_function *plan = &planned->plan.functions[i];
		enum way way = way_of(plan);

		if (way == WAY_REFUSED)
			xp_put(stdout, "%8s %13s", way_names[way], xp_call_plan_reason_word(plan->reason));
		else
			xp_put(stdout, "%8s %6u %6u", way_names[way], plan->exit_count,
			       plan->probe_count + (way == WAY_PROBES));
		xp_put(stdout, "  0x%016" PRIx64 " ", plan->vaddr);
		print_name(xp_planned_name(planned, i));
	}
}

/* ---- USDT probes ---- */

static void print_usdt(const struct listing *listing, const struct object *object)
{
	bool is_first = !object->table && !object->is_planned;

	if (is_first && listing->objects)
		putchar('\n');
	xp_put_line(stdout, "# %s%s%zu USDT probe%s", is_first ? object->path : "", is_first ? ": " : "",
		    object->usdt.count, xp_plural_s(object->usdt.count));
	xp_put_line(stdout, "# %-18s %-18s %s", "address", "semaphore", "provider:name arguments");
	for (size_t i = 0; i < object->usdt.count; i++) {
		const struct xp_usdt_probe *probe = &object->usdt.all[i];

		xp_put(stdout, "  0x%016" PRIx64 " ", probe->vaddr);
		if (probe->semaphore)
			xp_put(stdout, "0x%016" PRIx64, probe->semaphore);
		else
			xp_put(stdout, "%-18s", "-");
		xp_put_line(stdout, " %s:%s%s%s", probe->provider, probe->name, *probe->arguments ? " " : "",
			    probe->arguments);
	}
}

/* ---- JSON ---- */

static void json_usdt(const struct object *object)
{
	for (size_t i = 0; i < object->usdt.count; i++) {
		const struct xp_usdt_probe *probe = &object->usdt.all[i];

		xp_put_line(stdout, "%s", i ? "," : "");
		xp_put(stdout, "{\"address\":%" PRIu64 ",\"semaphore\":%" PRIu64 ",\"provider\":", probe->vaddr,
		       probe->semaphore);
		xp_json_text(stdout, probe->provider);
		xp_put(stdout, ",\"name\":");
		xp_json_text(stdout, probe->name);
		xp_put(stdout, ",\"arguments\":");
		xp_json_text(stdout, probe->arguments);
		putchar('}');
	}
}

static void json_function(uint64_t vaddr, const char *name, enum way way)
{
	char *demangled = name ? xp_demangle(name) : NULL;

	xp_put(stdout, "{\"address\":%" PRIu64 ",\"calls\":\"%s\",\"name\":", vaddr, way_names[way]);
	if (name)
		xp_json_text(stdout, demangled ? demangled : name);
	else
		xp_put(stdout, "null");
	free(demangled);
}

static void json_sled_functions(const struct listing *listing, const struct xp_sled_table *table)
{
	size_t sled = 0;

	for (size_t i = 0; i < table->function_count; i++) {
		size_t kinds[XP_SLED_KINDS] = { 0 };

		for (; sled < table->sled_count && table->sleds[sled].function_id == i + 1; sled++)
			kinds[table->sleds[sled].kind]++;
		xp_put_line(stdout, "%s", i ? "," : "");
		json_function(table->functions[i].vaddr, table->functions[i].name, WAY_SLED);
		xp_put(stdout, ",\"id\":%zu", listing->fn_base + i + 1);
		for (size_t kind = 0; kind < XP_SLED_KINDS; kind++)
			xp_put(stdout, ",\"%s\":%zu", xp_sled_kind_name(kind), kinds[kind]);
		putchar('}');
	}
}

static void json_planned(const struct object *object)
{
	const struct xp_planned *planned = &object->planned;

	for (size_t i = 0; i < planned->plan.function_count; i++) {
		const struct xp_call_plan_function *plan = &planned->plan.functions[i];
		enum way way = way_of(plan);

		xp_put_line(stdout, "%s", i ? "," : "");
		json_function(plan->vaddr, xp_planned_name(planned, i), way);
		if (way == WAY_REFUSED)
			xp_put(stdout, ",\"reason\":\"%s\"}", xp_call_plan_reason_text(plan->reason));
		else
			xp_put(stdout, ",\"exits\":%u,\"probes\":%u}", plan->exit_count,
			       plan->probe_count + (way == WAY_PROBES));
	}
}

static void json_totals(const struct object *object)
{
	size_t counts[WAYS] = { 0 };

	count_ways(object, counts);
	xp_put(stdout, "\"totals\":{");
	for (size_t way = 0; way < WAYS; way++)
		xp_put(stdout, "%s\"%s\":%zu", way ? "," : "", way_names[way], counts[way]);
	putchar('}');
}

static void json_object(const struct listing *listing, const struct object *object)
{
	const struct xp_sled_table *table = object->table;

	xp_put_line(stdout, "%s", listing->objects ? "," : "");
	xp_put(stdout, "{\"path\":");
	xp_json_text(stdout, object->path);
	xp_put(stdout, ",\"build_id\":\"");
	if (table)
		print_build_id(table->build_id, table->build_id_bytes);
	else
		print_build_id(object->planned.build_id, object->planned.build_id_bytes);
	xp_put(stdout, "\",");
	json_totals(object);
	xp_put(stdout, ",\"go\":%s", object->planned.is_go ? "true" : "false");
	xp_put(stdout, ",\"functions\":[");
	if (table)
		json_sled_functions(listing, table);
	if (object->is_planned)
		json_planned(object);
	xp_put(stdout, "],\"usdt\":[");
	json_usdt(object);
	xp_put(stdout, "]}");
}

/* ---- objects ---- */

static void list_object(struct listing *listing, const struct object *object)
{
	if (listing->json) {
		json_object(listing, object);
	} else {
		if (object->table)
			print_heading(listing, object->path, object->table);
		if (object->table && listing->sleds)
			print_sleds(listing, object->table);
		else if (object->table)
			print_functions(listing, object->table);
		if (object->is_planned)
			print_planned(listing, object);
		if (object->usdt.count)
			print_usdt(listing, object);
	}
	listing->fn_base += object->table ? object->table->function_count : 0;
	listing->objects++;
}

/* has_names: the user may read the file without xprof's capabilities. Otherwise, names are not shown. */
static int open_table(struct xp_sled_table **table, int fd, bool has_names)
{
	int err = xp_sled_table_open(table, fd);

	if (!err && !has_names)
		xp_sled_table_forget_names(*table);
	return err;
}

/* Reads the USDT probes of a file. Without has_names, reads none, because probes have names, too. */
static int read_usdt(struct object *object, int fd, bool has_names)
{
	struct xp_elf_file *file = has_names ? calloc(1, sizeof(*file)) : NULL;
	int err = 0;

	if (!file)
		return has_names ? -ENOMEM : 0;
	if (!xp_elf_file_fd(file, fd))
		err = xp_usdt_read(&object->usdt, file);
	xp_elf_file_close(file);
	free(file);
	return err;
}

/*
 * Lists a file and closes it. all: lists it even if it has neither sleds nor USDT probes. Returns 0 or -errno, with a
 * message (why.h).
 */
static int list_fd(struct listing *listing, const char *path, int fd, bool all)
{
	bool has_names = xp_chosen_user_may_read(fd);
	struct object object = { .path = path };
	int err = open_table(&object.table, fd, has_names);

	/* Like record, which records only functions with sleds in a file that has sleds. */
	if (!listing->sleds && err == -ENOENT && all) {
		err = xp_planned_ask(&object.planned, fd, path, has_names);
		object.is_planned = !err;
	}
	if (!listing->sleds && (!err || err == -ENOENT)) {
		int its_err = read_usdt(&object, fd, has_names);

		err = its_err || object.usdt.count ? its_err : err;
	}
	close(fd);
	if (!err)
		list_object(listing, &object);
	xp_sled_table_free(object.table);
	xp_planned_free(&object.planned);
	xp_usdt_free(&object.usdt);
	return err;
}

static enum xp_exit list_file(struct listing *listing, const char *path)
{
	int err, fd = xp_file_open_regular(AT_FDCWD, path);

	if (fd < 0)
		return xp_fail(XP_EXIT_FAILED, "%s: cannot open it: %s", path,
			       fd == -EINVAL ? "not a regular file" : strerror(-fd));
	err = list_fd(listing, path, fd, true);
	if (err)
		return xp_fail(XP_EXIT_FAILED, "%s: %s%s", path, xp_why(err),
			       err == -ENOENT && listing->sleds ? "; " HOW_TO_BUILD : "");
	return XP_EXIT_OK;
}

/* Lists a mapped file if it is the executable or has sleds. Prints a warning if it cannot be read. */
static int list_mapping(struct listing *listing, pid_t pid, const struct xp_mapping *mapping, bool is_executable)
{
	int err, fd = xp_mapping_open(pid, mapping);

	if (fd == -ENOEXEC)
		return 0;
	if (fd < 0) {
		xp_warn("%s: cannot open the file that process %d has mapped: %s; try with sudo", mapping->path, pid,
			strerror(-fd));
		return -EACCES;
	}
	err = list_fd(listing, mapping->path, fd, is_executable);
	if (err == -ENOENT || err == -ENOEXEC)
		return 0;
	if (err)
		xp_warn("%s: %s", mapping->path, xp_why(err));
	return err;
}

/* Returns the index of the executable. It is listed first, so that its function IDs are those of llvm-xray. */
static size_t find_executable(const struct xp_mappings *mappings, pid_t pid)
{
	struct stat st;

	if (xp_target_stat_exe(pid, &st))
		return 0;
	for (size_t i = 0; i < mappings->count; i++)
		if (mappings->list[i].inode == st.st_ino && mappings->list[i].dev == st.st_dev)
			return i;
	return 0;
}

static enum xp_exit list_mappings(struct listing *listing, pid_t pid, const struct xp_mappings *mappings)
{
	size_t executable = find_executable(mappings, pid), before = listing->objects;
	int err = mappings->count ? list_mapping(listing, pid, &mappings->list[executable], true) : 0;

	for (size_t i = 0; i < mappings->count; i++) {
		int its_err;

		if (mappings->list[i].first != i || i == executable)
			continue;
		its_err = list_mapping(listing, pid, &mappings->list[i], false);
		err = err ? err : its_err;
	}
	if (listing->objects > before)
		return err ? XP_EXIT_FAILED : XP_EXIT_OK;
	if (err == -EACCES)
		return XP_EXIT_ENVIRONMENT;
	if (!err)
		xp_error("process %d: %s", pid,
			 listing->sleds ? "no XRay sleds in its program or its shared objects; " HOW_TO_BUILD
					: "its program has no functions that can be listed");
	return XP_EXIT_FAILED;
}

static enum xp_exit list_process(struct listing *listing, pid_t pid)
{
	struct xp_mappings mappings = { 0 };
	struct xp_target_info info;
	enum xp_exit code;
	int err;

	err = xp_target_check(pid, &info);
	if (err) {
		xp_error("%s", xp_why(err));
		return err == -EACCES ? XP_EXIT_ENVIRONMENT : XP_EXIT_FAILED;
	}
	err = xp_mappings_read(&mappings, pid);
	if (err == -EACCES || err == -EPERM)
		return xp_fail(XP_EXIT_ENVIRONMENT, "process %d: not permitted to read its mappings; try with sudo",
			       pid);
	if (err)
		return xp_fail(XP_EXIT_FAILED, "process %d: cannot read its mappings: %s", pid, strerror(-err));
	code = list_mappings(listing, pid, &mappings);
	xp_mappings_free(&mappings);
	return code;
}

/* Returns the PID; 0 if the operand is not a number; -1 if it is a number but not a valid PID. */
static pid_t operand_pid(const char *operand)
{
	unsigned long number;
	char *end;

	if (!isdigit((unsigned char)operand[0]))
		return 0;
	errno = 0;
	number = strtoul(operand, &end, 10);
	if (*end)
		return 0;
	return errno || !number || number > INT_MAX ? -1 : (pid_t)number;
}

/* Lists the file with this name or, if there is none, the only process with this name. */
static enum xp_exit list_named(struct listing *listing, const char *name)
{
	struct xp_pid_list found = { 0 };
	enum xp_exit code = XP_EXIT_FAILED;

	if (strpbrk(name, "/,") || !access(name, F_OK) || errno != ENOENT)
		return list_file(listing, name);
	if (!xp_option_pids_set(&found, name, true))
		code = list_process(listing, found.pids[0]);
	free(found.pids);
	return code;
}

/* Lists an operand. listing->objects counts the objects of all operands. */
static enum xp_exit list_operand(struct listing *listing, const char *operand)
{
	pid_t pid = operand_pid(operand);

	listing->fn_base = 0;

	if (pid < 0)
		return xp_fail(XP_EXIT_FAILED, "'%s' is not a process id (for a file of that name, write ./%s)",
			       operand, operand);
	return pid ? list_process(listing, pid) : list_named(listing, operand);
}

enum xp_exit xp_cmd_list(const struct xp_options *options)
{
	struct listing listing = { .sleds = options->sleds, .json = options->json };
	enum xp_exit code = XP_EXIT_OK;

	if (options->sleds && options->json)
		return xp_fail(XP_EXIT_USAGE, "--json cannot be used with --sleds");
	if (listing.json)
		xp_put(stdout, "{\"objects\":[");
	for (size_t i = 0; i < options->operand_count; i++) {
		enum xp_exit its_code = list_operand(&listing, options->operands[i]);

		code = code ? code : its_code;
	}
	if (listing.json)
		xp_put_line(stdout, "]}");
	if (fflush(stdout) || ferror(stdout))
		return xp_fail(XP_EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
	return code;
}
