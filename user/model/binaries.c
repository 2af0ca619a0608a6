// SPDX-License-Identifier: BSD-2-Clause
#include "model/binaries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/symbol_file.h"
#include "format/manifest_reader.h"

#define DELETED " (deleted)"
/* Larger than any file of a recording (address_space.h). */
#define BINARIES_MAX (1u << 18)

size_t xp_recorded_hex(const char *text, uint8_t *bytes, size_t room)
{
	size_t count = 0;

	while (text && count < room && strspn(text + 2 * count, "0123456789abcdefABCDEF") >= 2 &&
	       sscanf(text + 2 * count, "%2hhx", &bytes[count]) == 1)
		count++;
	return count;
}

static uint64_t path_key(const void *all, uint32_t index)
{
	return xp_hash_text(((const struct xp_recorded_binary *)all)[index].path);
}

static uint64_t names_key(const void *all, uint32_t index)
{
	return xp_hash_text(basename(((const struct xp_recorded_binary *)all)[index].names));
}

/* Sets the path of a file in sym/ that the manifest names. *path NULL: it names none. Returns 0 or -ENOMEM. */
static int take_names(const struct xp_recorded_binaries *binaries, const json_t *names, char **path)
{
	const char *name = json_string_value(names);

	*path = NULL;
	if (!name || !*name || strchr(name, '/') || asprintf(path, "%s/sym/%s", binaries->directory, name) >= 0)
		return 0;
	*path = NULL;
	return -ENOMEM;
}

static int add_binary(struct xp_recorded_binaries *binaries, const json_t *json)
{
	const char *path = xp_manifest_string(json, "path");
	struct xp_recorded_binary *binary = &binaries->all[binaries->count];
	uint32_t index = (uint32_t)binaries->count;

	if (!path)
		return 0;
	binary->path = strdup(path);
	if (!binary->path)
		return -ENOMEM;
	binaries->count++;
	binary->build_id_bytes =
	    xp_recorded_hex(xp_manifest_string(json, "build_id"), binary->build_id, sizeof(binary->build_id));
	binary->inode = xp_manifest_number(json, "inode");
	binary->lacks_debug = json_is_true(json_object_get(json, "lacks_debug"));
	binary->has_code = json_is_integer(json_object_get(json, "exec_vaddr"));
	binary->exec_vaddr = xp_manifest_number(json, "exec_vaddr");
	binary->exec_offset = xp_manifest_number(json, "exec_offset");
	if (take_names(binaries, json_object_get(json, "names"), &binary->names) ||
	    xp_hash_add(&binaries->by_path, xp_hash_text(path), index, path_key, binaries->all))
		return -ENOMEM;
	return binary->names
		   ? xp_hash_add(&binaries->by_names, names_key(binaries->all, index), index, names_key, binaries->all)
		   : 0;
}

/* Reads the files with names of code that is in no file. */
static int add_symbols(struct xp_recorded_binaries *binaries, const json_t *symbols)
{
	const json_t *list = json_object_get(symbols, "kernel");
	int err = take_names(binaries, json_object_get(symbols, "vdso"), &binaries->vdso);

	for (size_t i = 0; !err && i < json_array_size(list); i++) {
		const json_t *window = json_array_get(list, i);
		uint64_t number = xp_manifest_number(window, "offset") / XP_KERNEL_WINDOW_BYTES;

		if (number < XP_KERNEL_WINDOWS && !binaries->kernel[number])
			err = take_names(binaries, json_object_get(window, "names"), &binaries->kernel[number]);
	}
	return err;
}

int xp_recorded_binaries_read(struct xp_recorded_binaries **result, const char *directory, const json_t *manifest)
{
	const json_t *list = json_object_get(manifest, "binaries");
	struct xp_recorded_binaries *binaries = calloc(1, sizeof(*binaries));
	size_t count = json_array_size(list);
	int err = 0;

	*result = binaries;
	if (!binaries)
		return -ENOMEM;
	count = count < BINARIES_MAX ? count : BINARIES_MAX;
	binaries->is_listed = json_is_array(list);
	binaries->directory = strdup(directory);
	binaries->all = calloc(count + 1, sizeof(*binaries->all));
	if (!binaries->directory || !binaries->all)
		return -ENOMEM;
	for (size_t i = 0; !err && i < count; i++)
		err = add_binary(binaries, json_array_get(list, i));
	return err ?: add_symbols(binaries, json_object_get(manifest, "symbols"));
}

void xp_recorded_binaries_free(struct xp_recorded_binaries *binaries)
{
	if (!binaries)
		return;
	for (size_t i = 0; i < binaries->count; i++) {
		free(binaries->all[i].path);
		free(binaries->all[i].names);
	}
	for (size_t i = 0; i < XP_KERNEL_WINDOWS; i++)
		free(binaries->kernel[i]);
	free(binaries->vdso);
	xp_hash_free(&binaries->by_path);
	xp_hash_free(&binaries->by_names);
	free(binaries->all);
	free(binaries->directory);
	free(binaries);
}

/* A mapping that is recorded by its build ID has no inode. */
static bool is_same(const struct xp_recorded_binary *binary, const struct xp_mapped_binary *mapped)
{
	if (binary->build_id_bytes && mapped->build_id_bytes)
		return binary->build_id_bytes == mapped->build_id_bytes &&
		       !memcmp(binary->build_id, mapped->build_id, mapped->build_id_bytes);
	return mapped->inode && binary->inode == mapped->inode;
}

const struct xp_recorded_binary *xp_recorded_binaries_find(const struct xp_recorded_binaries *binaries,
							   const struct xp_mapped_binary *mapped)
{
	size_t length = strlen(mapped->path), deleted = strlen(DELETED);
	char *path;
	const struct xp_recorded_binary *found = NULL;
	const struct xp_hash *hash = &binaries->by_path;

	if (length > deleted && !strcmp(mapped->path + length - deleted, DELETED))
		length -= deleted;
	path = strndup(mapped->path, length);
	if (!path)
		return NULL;
	for (const uint32_t *slot = xp_hash_first(hash, xp_hash_text(path)); !found && *slot;
	     slot = xp_hash_next(hash, slot)) {
		const struct xp_recorded_binary *binary = &binaries->all[*slot - 1];

		if (!strcmp(binary->path, path) && is_same(binary, mapped))
			found = binary;
	}
	free(path);
	return found;
}

const struct xp_recorded_binary *xp_recorded_binaries_named(const struct xp_recorded_binaries *binaries,
							    const char *file)
{
	const struct xp_hash *hash = &binaries->by_names;

	for (const uint32_t *slot = xp_hash_first(hash, xp_hash_text(file)); *slot; slot = xp_hash_next(hash, slot))
		if (!strcmp(basename(binaries->all[*slot - 1].names), file))
			return &binaries->all[*slot - 1];
	return NULL;
}

const char *xp_recorded_binaries_kernel(const struct xp_recorded_binaries *binaries, uint64_t address, uint64_t *vaddr)
{
	if (address < XP_KERNEL_START)
		return NULL;
	*vaddr = (address - XP_KERNEL_START) % XP_KERNEL_WINDOW_BYTES + XP_SYM_ELF_OFFSET;
	return binaries->kernel[(address - XP_KERNEL_START) / XP_KERNEL_WINDOW_BYTES];
}
