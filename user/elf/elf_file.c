// SPDX-License-Identifier: BSD-2-Clause
#include "elf/elf_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "base/why.h"

#define PAGE_MASK 4095ull
/*
 * Limits far above the output of any linker. Without them, a file with many headers could request a copy of the same
 * megabytes for each.
 */
#define NOTES_BYTES_MAX (1u << 16)
#define NOTES_MAX 16
#define SECTION_NAME_BYTES_MAX 32

static int add_segment(struct xp_elf_file *image, size_t index, const GElf_Phdr *header)
{
	uint64_t end;

	if (__builtin_add_overflow(header->p_offset, header->p_filesz, &end) || end > image->size)
		return xp_why_set(-EINVAL, "program header %zu reaches beyond the file's end", index);
	if (__builtin_add_overflow(header->p_vaddr, header->p_filesz, &end))
		return xp_why_set(-EINVAL, "program header %zu wraps around the address space", index);
	if ((header->p_vaddr ^ header->p_offset) & PAGE_MASK)
		return xp_why_set(-EINVAL,
				  "program header %zu cannot be mapped: address and offset differ "
				  "within a page",
				  index);
	if (image->segment_count == XP_ELF_SEGMENTS_MAX)
		return xp_why_set(-EINVAL, "more than %d executable segments", XP_ELF_SEGMENTS_MAX);
	image->segments[image->segment_count++] = (struct xp_elf_segment){
		.vaddr = header->p_vaddr,
		.offset = header->p_offset,
		.bytes = header->p_filesz,
		.align = header->p_align,
	};
	return 0;
}

static int read_segments(struct xp_elf_file *image)
{
	size_t count;

	if (elf_getphdrnum(image->elf, &count))
		return xp_why_set(-EINVAL, "broken program headers: %s", elf_errmsg(-1));
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;
		int err;

		if (!gelf_getphdr(image->elf, i, &header))
			return xp_why_set(-EINVAL, "broken program header %zu: %s", i, elf_errmsg(-1));
		if (header.p_type != PT_LOAD || !(header.p_flags & PF_X))
			continue;
		err = add_segment(image, i, &header);
		if (err)
			return err;
	}
	return 0;
}

static int check_header(struct xp_elf_file *image, bool may_be_32_bit)
{
	GElf_Ehdr header;
	bool is_32_bit;

	if (elf_kind(image->elf) != ELF_K_ELF)
		return xp_why_set(-ENOEXEC, "not an ELF file");
	if (!gelf_getehdr(image->elf, &header))
		return xp_why_set(-ENOEXEC, "broken ELF header: %s", elf_errmsg(-1));
	is_32_bit = gelf_getclass(image->elf) != ELFCLASS64;
	if (is_32_bit && !may_be_32_bit)
		return xp_why_set(-ENOEXEC, "a 32-bit ELF file, only x86-64 is supported");
	if (header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != (is_32_bit ? EM_386 : EM_X86_64))
		return xp_why_set(-ENOEXEC, "an ELF file for another machine (%u), only x86-64 is supported",
				  header.e_machine);
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return xp_why_set(-ENOEXEC, "neither an executable nor a shared object (ELF type %u)", header.e_type);
	image->dynamic = header.e_type == ET_DYN;
	return read_segments(image);
}

static void image_init(struct xp_elf_file *image)
{
	/* window stays uninitialized: window_bytes is 0 */
	memset(image, 0, offsetof(struct xp_elf_file, window));
	image->fd = -1;
	elf_version(EV_CURRENT);
}

int xp_elf_file_memory(struct xp_elf_file *image, const void *elf, size_t size)
{
	image_init(image);
	image->memory = elf;
	image->size = size;
	/* libelf requires a char *, but modifies the memory only if asked to update it. */
	image->elf = elf_memory((char *)elf, size);
	if (!image->elf)
		return xp_why_set(-ENOEXEC, "not an ELF file");
	return check_header(image, false);
}

static int open_fd(struct xp_elf_file *image, int fd, bool may_be_32_bit)
{
	struct stat st;

	image_init(image);
	if (fstat(fd, &st))
		return xp_why_set(-errno, "cannot stat it: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return xp_why_set(-ENOEXEC, "not a regular file");
	image->fd = fd;
	image->size = st.st_size;
	image->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!image->elf)
		return xp_why_set(-ENOEXEC, "not an ELF file");
	return check_header(image, may_be_32_bit);
}

int xp_elf_file_fd(struct xp_elf_file *image, int fd)
{
	return open_fd(image, fd, false);
}

int xp_elf_file_named(struct xp_elf_file *image, int fd)
{
	return open_fd(image, fd, true);
}

void xp_elf_file_close(struct xp_elf_file *image)
{
	elf_end(image->elf);
	image->elf = NULL;
}

static size_t read_fd(int fd, uint8_t *to, uint64_t offset, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, to + done, size - done, offset + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	return done;
}

bool xp_elf_file_read(struct xp_elf_file *image, void *to, uint64_t offset, size_t size)
{
	if (offset > image->size || size > image->size - offset)
		return false;
	if (image->memory) {
		memcpy(to, image->memory + offset, size);
		return true;
	}
	if (size > sizeof(image->window))
		return read_fd(image->fd, to, offset, size) == size;
	if (offset < image->window_offset || offset - image->window_offset > image->window_bytes ||
	    size > image->window_bytes - (offset - image->window_offset)) {
		image->window_offset = offset;
		image->window_bytes = read_fd(image->fd, image->window, offset, sizeof(image->window));
	}
	if (size > image->window_bytes - (offset - image->window_offset))
		return false; /* the file was truncated meanwhile */
	memcpy(to, image->window + (offset - image->window_offset), size);
	return true;
}

const struct xp_elf_segment *xp_elf_file_segment(const struct xp_elf_file *image, uint64_t vaddr, uint64_t bytes)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct xp_elf_segment *segment = &image->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->bytes &&
		    bytes <= segment->bytes - (vaddr - segment->vaddr))
			return segment;
	}
	return NULL;
}

/*
 * Returns whether the section has this name. Reads only the bytes of the name: elf_strptr() searches the table for a
 * NUL on every call, which takes hours for a file with many sections and a table without a NUL.
 */
static bool section_is_named(struct xp_elf_file *image, const GElf_Shdr *names, const GElf_Shdr *header,
			     const char *name)
{
	char text[SECTION_NAME_BYTES_MAX];
	size_t bytes = strlen(name) + 1;
	uint64_t offset;

	if (bytes > sizeof(text) || __builtin_add_overflow(names->sh_offset, header->sh_name, &offset))
		return false;
	return xp_elf_file_read(image, text, offset, bytes) && !memcmp(text, name, bytes);
}

Elf_Scn *xp_elf_file_section(struct xp_elf_file *image, const char *name, uint32_t type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;
	GElf_Shdr names;
	size_t index;

	if (name && (elf_getshdrstrndx(image->elf, &index) || !gelf_getshdr(elf_getscn(image->elf, index), &names)))
		return NULL;
	while ((section = elf_nextscn(image->elf, section))) {
		if (!gelf_getshdr(section, header))
			continue;
		if (name ? section_is_named(image, &names, header, name) : header->sh_type == type)
			return section;
	}
	return NULL;
}

static bool is_in_file(const struct xp_elf_file *image, const GElf_Shdr *header)
{
	return header->sh_offset <= image->size && header->sh_size <= image->size - header->sh_offset;
}

bool xp_elf_file_is_go(struct xp_elf_file *image)
{
	static const char *const names[] = { ".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab" };
	GElf_Shdr header;
	bool is_go = false;

	for (size_t i = 0; i < XP_ARRAY_SIZE(names) && !is_go; i++)
		is_go = xp_elf_file_section(image, names[i], 0, &header);
	return is_go;
}

bool xp_elf_file_symbols(struct xp_elf_file *image, uint32_t type, GElf_Shdr *symbols, GElf_Shdr *strings)
{
	return xp_elf_file_section(image, NULL, type, symbols) && symbols->sh_entsize == sizeof(Elf64_Sym) &&
	       gelf_getshdr(elf_getscn(image->elf, symbols->sh_link), strings) && strings->sh_type == SHT_STRTAB &&
	       is_in_file(image, symbols) && is_in_file(image, strings);
}

bool xp_elf_file_section_name(struct xp_elf_file *image, const GElf_Shdr *names, const GElf_Shdr *header, char *to,
			      size_t size)
{
	uint64_t offset, bytes;

	if (__builtin_add_overflow(names->sh_offset, header->sh_name, &offset) || offset >= image->size)
		return false;
	bytes = XP_MIN(image->size - offset, (uint64_t)size - 1);
	to[bytes] = 0;
	return xp_elf_file_read(image, to, offset, bytes);
}

static size_t build_id_of_notes(Elf_Data *notes, uint8_t *to, size_t size)
{
	size_t at = 0, name_at, descriptor_at;
	GElf_Nhdr note;

	while ((at = gelf_getnote(notes, at, &note, &name_at, &descriptor_at))) {
		size_t bytes = XP_MIN((size_t)note.n_descsz, size);

		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof(ELF_NOTE_GNU) ||
		    memcmp((char *)notes->d_buf + name_at, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)))
			continue;
		memcpy(to, (char *)notes->d_buf + descriptor_at, bytes);
		return bytes;
	}
	return 0;
}

size_t xp_elf_file_build_id(struct xp_elf_file *image, uint8_t *to, size_t size)
{
	size_t count, notes_seen = 0, bytes = 0;

	if (elf_getphdrnum(image->elf, &count))
		return 0;
	for (size_t i = 0; i < count && notes_seen < NOTES_MAX && !bytes; i++) {
		GElf_Phdr header;
		Elf_Data *notes;

		if (!gelf_getphdr(image->elf, i, &header) || header.p_type != PT_NOTE ||
		    header.p_filesz > NOTES_BYTES_MAX)
			continue;
		notes_seen++;
		notes = elf_getdata_rawchunk(image->elf, header.p_offset, header.p_filesz,
					     header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
		if (notes)
			bytes = build_id_of_notes(notes, to, size);
	}
	return bytes;
}
