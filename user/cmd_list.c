// SPDX-License-Identifier: BSD-2-Clause
/* xprof list: the instrumented functions, or all sleds, of processes and files. */
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
#include "target/chosen_file.h"
#include "target/target.h"

#define HOW_TO_BUILD "build with clang -fxray-instrument (add -fxray-instruction-threshold=1 for all functions)"

/* State shared by the objects of one operand. */
struct listing {
	bool sleds;	  /* one line per sled */
	uint32_t fn_base; /* ids in a process continue from one object to the next */
	size_t objects;
};

static const char *const register_names[16] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
						"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };
static const char *const condition_names[16] = { "o", "no", "b", "ae", "e", "ne", "be", "a",
						 "s", "ns", "p", "np", "l", "ge", "le", "g" };

/* The name ends the line. */
static void print_name(const char *name)
{
	char *demangled = name ? xp_demangle(name) : NULL;

	xp_put_line(stdout, "%s", demangled ? demangled : name ? name : "-");
	free(demangled);
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
	for (size_t i = 0; i < table->build_id_bytes; i++)
		xp_put(stdout, "%02x", table->build_id[i]);
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

static void list_object(struct listing *listing, const char *path, const struct xp_sled_table *table)
{
	print_heading(listing, path, table);
	if (listing->sleds)
		print_sleds(listing, table);
	else
		print_functions(listing, table);
	listing->fn_base += table->function_count;
	listing->objects++;
}

/* Closes fd. A file that the user may not read without xprof's capabilities is listed without names. */
static int open_table(struct xp_sled_table **table, int fd)
{
	int err = xp_sled_table_open(table, fd);

	if (!err && !xp_chosen_user_may_read(fd))
		xp_sled_table_forget_names(*table);
	close(fd);
	return err;
}

static enum xp_exit list_file(struct listing *listing, const char *path)
{
	struct xp_sled_table *table;
	int fd, err;

	fd = xp_file_open_regular(AT_FDCWD, path);
	if (fd < 0)
		return xp_fail(XP_EXIT_FAILED, "%s: cannot open it: %s", path,
			       fd == -EINVAL ? "not a regular file" : strerror(-fd));
	err = open_table(&table, fd);
	if (err)
		return xp_fail(XP_EXIT_FAILED, "%s: %s%s", path, xp_why(err), err == -ENOENT ? "; " HOW_TO_BUILD : "");
	list_object(listing, path, table);
	xp_sled_table_free(table);
	return XP_EXIT_OK;
}

/* Most mapped files have no sleds, so only broken or hidden ones are reported. */
static int list_mapping(struct listing *listing, pid_t pid, const struct xp_mapping *mapping)
{
	struct xp_sled_table *table;
	int err, fd = xp_mapping_open(pid, mapping);

	if (fd == -ENOEXEC)
		return 0;
	if (fd < 0) {
		xp_warn("%s: cannot open the file that process %d has mapped: %s; try with sudo", mapping->path, pid,
			strerror(-fd));
		return -EACCES;
	}
	err = open_table(&table, fd);
	if (err == -ENOENT || err == -ENOEXEC)
		return 0;
	if (err) {
		xp_warn("%s: %s", mapping->path, xp_why(err));
		return err;
	}
	list_object(listing, mapping->path, table);
	xp_sled_table_free(table);
	return 0;
}

static bool same_file(const struct xp_mapping *a, const struct xp_mapping *b)
{
	return a->inode == b->inode && a->dev == b->dev;
}

static bool seen_before(const struct xp_mappings *mappings, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (same_file(&mappings->list[i], &mappings->list[index]))
			return true;
	return false;
}

/* The executable comes first, so that its ids match those of llvm-xray. */
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
	size_t executable = find_executable(mappings, pid);
	int err = mappings->count ? list_mapping(listing, pid, &mappings->list[executable]) : 0;

	for (size_t i = 0; i < mappings->count; i++) {
		int its_err;

		if (same_file(&mappings->list[i], &mappings->list[executable]) || seen_before(mappings, i))
			continue;
		its_err = list_mapping(listing, pid, &mappings->list[i]);
		err = err ? err : its_err;
	}
	if (listing->objects)
		return err ? XP_EXIT_FAILED : XP_EXIT_OK;
	if (err == -EACCES)
		return XP_EXIT_ENVIRONMENT;
	if (!err)
		xp_error("process %d: no XRay sleds in its program or its shared objects; " HOW_TO_BUILD, pid);
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

/* Returns 0 if the operand is not a number, so a file name; -1 if it is a number but not a process id. */
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

static enum xp_exit list_operand(const struct xp_options *options, const char *operand, bool first)
{
	struct listing listing = { .sleds = options->sleds, .objects = !first };
	pid_t pid = operand_pid(operand);

	if (pid < 0)
		return xp_fail(XP_EXIT_FAILED, "'%s' is not a process id (for a file of that name, write ./%s)",
			       operand, operand);
	return pid ? list_process(&listing, pid) : list_file(&listing, operand);
}

enum xp_exit xp_cmd_list(const struct xp_options *options)
{
	enum xp_exit code = XP_EXIT_OK;

	for (size_t i = 0; i < options->operand_count; i++) {
		enum xp_exit its_code = list_operand(options, options->operands[i], i == 0);

		code = code ? code : its_code;
	}
	if (fflush(stdout) || ferror(stdout))
		return xp_fail(XP_EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
	return code;
}
