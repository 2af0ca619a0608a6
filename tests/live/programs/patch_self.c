// SPDX-License-Identifier: BSD-2-Clause
/*
 * A preloaded library that patches all functions of one object of its process before main(), with xprof's plans and a
 * slot that only counts. This tests plans and trampolines in real programs, without a recording. PATCH_SELF: the end of
 * the object's path. PATCH_SELF_OUT: file to which the counts are appended when the process exits.
 */
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/why.h"
#include "functions/patches.h"

#define ROOM (64ul << 20)
#define COUNTERS_MAX (1u << 20)

/* Indexed by r10d: twice the function ID, plus 1 at exits. */
uint64_t patch_self_counts[COUNTERS_MAX] __attribute__((visibility("hidden")));
void patch_self_slot(void) __attribute__((visibility("hidden")));

/* Like the stub, it destroys r10 and the flags. */
__asm__(".text\npatch_self_slot:\n"
	"push %r11\n"
	"lea patch_self_counts(%rip), %r11\n"
	"lock incq (%r11,%r10,8)\n"
	"pop %r11\n"
	"xor %r10d, %r10d\n"
	"cmp $1, %r10d\n"
	"ret");

static struct xp_elf_file file;
static struct xp_call_plan plan;
static struct xp_patched_function patched;
static uint8_t *room;
static size_t used, functions, windows, failures;
static pid_t owner;

struct object {
	const char *name;
	uint64_t base;
	uint64_t start; /* start of its code */
	uint64_t end;
	char path[4096];
};

static int find_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object *object = arg;
	char path[4096] = "";
	ssize_t bytes = *info->dlpi_name ? 0 : readlink("/proc/self/exe", path, sizeof(path) - 1);

	(void)size;
	if (bytes <= 0)
		snprintf(path, sizeof(path), "%s", info->dlpi_name);
	if (strlen(path) < strlen(object->name) || strcmp(path + strlen(path) - strlen(object->name), object->name))
		return 0;
	strcpy(object->path, path);
	object->base = info->dlpi_addr;
	object->start = UINT64_MAX;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		if (header->p_vaddr < object->start)
			object->start = header->p_vaddr;
		if (header->p_vaddr + header->p_memsz > object->end)
			object->end = header->p_vaddr + header->p_memsz;
	}
	return 1;
}

/* Returns memory within reach of a jump. */
static void *map_near(uint64_t address)
{
	for (uint64_t distance = 64ul << 20; distance < 1800ul << 20; distance += 16ul << 20) {
		for (int side = -1; side <= 1; side += 2) {
			uint64_t at = ((address + (uint64_t)(side * (int64_t)distance)) & ~0xffful);
			void *map = at < 1ul << 47 && at > 1 << 16 ?
					    mmap((void *)at, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) :
					    MAP_FAILED;

			if (map != MAP_FAILED)
				return map;
		}
	}
	return NULL;
}

static void patch(const struct xp_call_plan_function *function, uint32_t number)
{
	size_t start = used;
	struct xp_code_patch jumps[2];

	patched.function = function;
	for (size_t kind = 0; kind < 4; kind++)
		patched.words[kind] = 2 * number + (kind != XP_SITE_ENTRY);
	/* Patches all or nothing. */
	for (int writes = 0; writes < 2; writes++) {
		used = start;
		for (uint32_t i = function->first_window; i < function->first_window + function->window_count; i++) {
			size_t bytes = used + XP_TRAMPOLINE_BYTES_MAX > ROOM ?
					       0 :
					       xp_patches_encode(&patched, i, (uintptr_t)room + used, room + used, jumps);

			if (!bytes) {
				failures++;
				return;
			}
			used += bytes;
			for (size_t k = 0; writes && k < 2 && jumps[k].count; k++)
				memcpy((void *)jumps[k].address, jumps[k].bytes, jumps[k].count);
			windows += writes;
		}
	}
	functions++;
}

__attribute__((constructor)) static void start(void)
{
	struct object object = { .name = getenv("PATCH_SELF") };
	uint64_t from, bytes;
	uint8_t *copy;
	int fd, err;

	if (!object.name || !dl_iterate_phdr(find_object, &object))
		return;
	fd = open(object.path, O_RDONLY | O_CLOEXEC);
	err = xp_elf_file_fd(&file, fd);
	if (err || xp_call_plan_make(&plan, &file)) {
		fprintf(stderr, "patch_self: %s: %s\n", object.path, xp_why(err));
		_exit(99);
	}
	xp_elf_file_close(&file);
	close(fd);
	from = (object.base + object.start) & ~0xffful;
	bytes = object.base + object.end - from;
	room = map_near(from);
	copy = malloc(object.end - object.start);
	if (!room || !copy || mprotect((void *)from, bytes, PROT_READ | PROT_WRITE | PROT_EXEC))
		_exit(98);
	memcpy(copy, (void *)(object.base + object.start), object.end - object.start);
	patched = (struct xp_patched_function){
		.plan = &plan,
		.code = copy,
		.code_vaddr = object.start,
		.bias = object.base,
	};
	/* The slot must be within reach, too. */
	memcpy(room, (uint8_t[]){ 0xff, 0x25, 0, 0, 0, 0 }, 6);
	memcpy(room + 6, &(uint64_t){ (uintptr_t)patch_self_slot }, sizeof(uint64_t));
	patched.slots[0] = patched.slots[1] = (uintptr_t)room;
	used = 16;
	for (size_t i = 0; i < plan.function_count && i < COUNTERS_MAX / 2; i++)
		if (plan.functions[i].way == XP_CALL_PLAN_PATCHED)
			patch(&plan.functions[i], (uint32_t)i);
	mprotect((void *)from, bytes, PROT_READ | PROT_EXEC);
	free(copy);
	owner = getpid();
}

__attribute__((destructor)) static void end(void)
{
	const char *path = getenv("PATCH_SELF_OUT");
	uint64_t entries = 0, exits = 0;
	FILE *out = path && owner == getpid() ? fopen(path, "a") : NULL;

	if (!out)
		return;
	for (size_t i = 0; i < plan.function_count && i < COUNTERS_MAX / 2; i++) {
		const struct xp_call_plan_function *function = &plan.functions[i];
		uint64_t entered = patch_self_counts[2 * i], left = patch_self_counts[2 * i + 1];

		entries += entered;
		exits += left;
		/*
		 * Each exit is recorded, so there are more entries only if a call has not returned yet, or never will.
		 */
		if (entered != left && !function->probe_count)
			fprintf(out, "open 0x%lx %lu %lu\n", (unsigned long)function->vaddr, (unsigned long)entered,
				(unsigned long)left);
		if (entered)
			fprintf(out, "calls 0x%lx %lu\n", (unsigned long)function->vaddr, (unsigned long)entered);
	}
	fprintf(out, "patched %zu functions, %zu windows, %zu bytes, %zu failures: %lu entries, %lu exits\n", functions,
		windows, used, failures, (unsigned long)entries, (unsigned long)exits);
	fclose(out);
}
