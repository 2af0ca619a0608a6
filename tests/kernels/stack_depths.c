// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints, for each uprobe program of a BPF object, its name and the stack bytes of each of its functions, as the
 * verifier reports them: "sled_entry 32+40".
 *
 * The verifier only counts code that it explores, and it does not explore code of an option that is off. So this
 * program makes the map of the options writable: the verifier then does not know their values, and explores all code.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#define LOG_BYTES (1 << 20)
#define LOG_STATISTICS 4 /* BPF_LOG_STATS, include/linux/bpf_verifier.h */

static bool is_uprobe(const struct bpf_program *program)
{
	return !strncmp(bpf_program__section_name(program), "uprobe", 6);
}

/* What to load, and how. The logs must live as long as this program. */
static bool prepare(struct bpf_object *object)
{
	struct bpf_program *program;
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		if (strstr(bpf_map__name(map), ".rodata"))
			bpf_map__set_map_flags(map, bpf_map__map_flags(map) & ~(__u32)BPF_F_RDONLY_PROG);
	}
	bpf_object__for_each_program(program, object)
	{
		char *log = calloc(1, LOG_BYTES);

		if (!log)
			return false;
		bpf_program__set_autoload(program, is_uprobe(program));
		bpf_program__set_log_level(program, LOG_STATISTICS);
		bpf_program__set_log_buf(program, log, LOG_BYTES);
	}
	return true;
}

/*
 * Prints the numbers of a log, such as "24+16" of the line "stack depth 24+16". Linux 7.3 prints the sum there, "stack
 * depth max 48", and a line for each function: "subprog 1 (ring_position) static insns_self 23 insns_total 23 stack
 * 16". Returns how many numbers there are.
 */
static unsigned int print_depth(const char *log)
{
	unsigned int count = 0;
	const char *depth;

	for (; log; log = strchr(log, '\n'), log += log != NULL) {
		int size = (int)strcspn(log, "\n");

		if (!strncmp(log, "stack depth ", 12) && strncmp(log, "stack depth max ", 16))
			count += printf("%.*s", size - 12, log + 12) > 0;
		depth = strstr(log, " stack ");
		if (!strncmp(log, "subprog ", 8) && depth && depth < log + size)
			printf("%s%u", count++ ? "+" : "", atoi(depth + 7));
	}
	return count;
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *program;
	int err;

	if (!object || !prepare(object))
		return 2;
	err = bpf_object__load(object) ? 1 : 0;
	bpf_object__for_each_program(program, object)
	{
		size_t bytes;

		if (!bpf_program__autoload(program))
			continue;
		printf("%s ", bpf_program__name(program));
		if (!print_depth(bpf_program__log_buf(program, &bytes)))
			err = 1;
		printf("\n");
	}
	bpf_object__close(object);
	return err;
}
