// SPDX-License-Identifier: BSD-2-Clause
/* Prints the name of each BPF program of this kernel, and how many instructions the verifier processed. */
#include <stdio.h>
#include <unistd.h>

#include <bpf/bpf.h>

int main(void)
{
	for (__u32 id = 0; !bpf_prog_get_next_id(id, &id);) {
		struct bpf_prog_info info = { 0 };
		__u32 size = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
			return 1;
		printf("%s %u\n", info.name, info.verified_insns);
		close(fd);
	}
	return 0;
}
