// SPDX-License-Identifier: BSD-2-Clause
/* Writes the seeds of fuzz_elf_xray into the directory given: `seed_elf_xray tests/fuzz/corpus/elf_xray`. */
#include <stdio.h>

#include "../unit/tiny_elf.h"

static int write_seed(const char *directory, const char *name, const struct tiny_elf *elf)
{
	char path[4096];
	FILE *file;
	int failed;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	if (!file)
		return 1;
	failed = fwrite(elf->bytes, sizeof(elf->bytes), 1, file) != 1;
	return fclose(file) || failed;
}

int main(int argc, char **argv)
{
	struct tiny_elf elf;
	int failed = 0;

	if (argc != 2)
		return 2;
	tiny_example(&elf, 0, 0);
	failed |= write_seed(argv[1], "exec-v0", &elf);
	tiny_example(&elf, 1, 2);
	failed |= write_seed(argv[1], "pie-v2", &elf);
	tiny_init(&elf, 1);
	tiny_code(&elf, 0, "\xeb\x09", 2);
	tiny_raw_sled(&elf, 0, 0, 0, 1);
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 0), 8, tiny_text_vaddr(&elf, 0));
	tiny_relocation(&elf, tiny_map_vaddr(&elf, 8), 8, tiny_text_vaddr(&elf, 0));
	tiny_symbol(&elf, "_ZN4core3fmt5write17h0123456789abcdefE", 0x12, tiny_text_vaddr(&elf, 0), 16);
	failed |= write_seed(argv[1], "pie-v1-relocated", &elf);
	if (failed)
		perror(argv[1]);
	return failed;
}
