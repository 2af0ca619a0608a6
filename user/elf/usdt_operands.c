/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/usdt_operands.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define SYMBOL_BYTES_MAX 64

/* What is left of an operand, whose text is terminated. */
struct parser {
	const char *at;
	xp_usdt_find_symbol *find;
	void *arg;
	uint64_t vaddr; /* address of the probe */
};

/* Takes the character if it is the next one. */
static bool take(struct parser *parser, char wanted)
{
	bool is_next = *parser->at == wanted;

	parser->at += is_next;
	return is_next;
}

static bool is_symbol_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '.';
}

/* An unsigned number, decimal or hexadecimal. */
static bool take_number(struct parser *parser, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)*parser->at))
		return false;
	*number = strtoull(parser->at, &end, 0);
	parser->at = end;
	return true;
}

static bool take_symbol(struct parser *parser, uint64_t *vaddr)
{
	char name[SYMBOL_BYTES_MAX];
	size_t bytes = 0;

	while (is_symbol_start(parser->at[bytes]) || isdigit((unsigned char)parser->at[bytes]) ||
	       parser->at[bytes] == '$')
		bytes++;
	if (!bytes || bytes >= sizeof(name))
		return false;
	memcpy(name, parser->at, bytes);
	name[bytes] = 0;
	parser->at += bytes;
	return parser->find(parser->arg, name, vaddr);
}

/* A sum of numbers and at most one symbol; an empty sum is 0. */
static bool take_sum(struct parser *parser, __u64 *sum, bool *has_symbol)
{
	bool is_first = true;

	*sum = 0;
	*has_symbol = false;
	while (*parser->at && *parser->at != '(') {
		bool is_minus = take(parser, '-');
		uint64_t term;

		if (!is_minus && !take(parser, '+') && !is_first)
			return false;
		is_first = false;
		if (is_symbol_start(*parser->at)) {
			if (is_minus || *has_symbol || !take_symbol(parser, &term))
				return false;
			*has_symbol = true;
		} else if (!take_number(parser, &term)) {
			return false;
		}
		*sum += is_minus ? -term : term;
	}
	return true;
}

/* The number of a register r8 to r15, of any size. 0: it is another one. */
static unsigned int numbered_register(const char *name)
{
	char *end;
	unsigned long number;

	if (name[0] != 'r' || !isdigit((unsigned char)name[1]))
		return 0;
	number = strtoul(name + 1, &end, 10);
	if (number < 8 || number > 15 || (*end && (end[1] || !strchr("dwb", *end))))
		return 0;
	return (unsigned int)number;
}

/* A general register of any size; the upper halves of 16 bits (%ah) have no number. */
static bool take_register(struct parser *parser, uint8_t *number)
{
	static const char *const words[] = { "ax", "cx", "dx", "bx", "sp", "bp", "si", "di" };
	static const char *const bytes[] = { "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil" };
	char name[8];
	size_t length = 0;

	if (!take(parser, '%'))
		return false;
	while (isalnum((unsigned char)parser->at[length]))
		length++;
	if (!length || length >= sizeof(name))
		return false;
	memcpy(name, parser->at, length);
	name[length] = 0;
	parser->at += length;
	*number = (uint8_t)numbered_register(name);
	if (*number)
		return true;
	for (*number = 0; *number < XP_ARRAY_SIZE(words); ++*number)
		if (!strcmp(name, bytes[*number]) || !strcmp(name, words[*number]) ||
		    ((*name == 'r' || *name == 'e') && !strcmp(name + 1, words[*number])))
			return true;
	*number = XP_USDT_IP;
	return !strcmp(name, "rip");
}

/* The rest of "(BASE,INDEX,SCALE)", of which each part may be missing. */
static bool take_address(struct parser *parser, struct xp_usdt_operand *operand)
{
	uint64_t scale = 1;

	if (*parser->at != ',' && !take_register(parser, &operand->base))
		return false;
	if (take(parser, ',')) {
		if (!take_register(parser, &operand->index) || operand->index == XP_USDT_IP)
			return false;
		if (take(parser, ',') && !take_number(parser, &scale))
			return false;
	}
	if (!scale || scale > 8 || scale & (scale - 1))
		return false;
	operand->shift = (uint8_t)__builtin_ctzll(scale);
	return take(parser, ')');
}

/*
 * Parses an address in memory. Without a register, the address of a symbol is as linked: both are then relative to the
 * probe, at any address of the mapping.
 */
static bool take_memory(struct parser *parser, struct xp_usdt_operand *operand)
{
	bool has_symbol;

	operand->kind = XP_USDT_MEMORY;
	if (!take_sum(parser, &operand->value, &has_symbol))
		return false;
	if (take(parser, '(')) {
		if (!take_address(parser, operand))
			return false;
	} else if (has_symbol) {
		operand->base = XP_USDT_IP;
	} else {
		return false;
	}
	if (operand->base != XP_USDT_IP)
		return true;
	operand->value -= parser->vaddr;
	return has_symbol && operand->index == XP_USDT_NO_REGISTER;
}

static bool take_operand(struct parser *parser, struct xp_usdt_operand *operand)
{
	bool has_symbol;

	if (take(parser, '$')) {
		operand->kind = XP_USDT_CONSTANT;
		return *parser->at && take_sum(parser, &operand->value, &has_symbol) && !has_symbol;
	}
	if (*parser->at == '%') {
		operand->kind = XP_USDT_REGISTER;
		return take_register(parser, &operand->base) && operand->base != XP_USDT_IP;
	}
	return take_memory(parser, operand);
}

/* "SIZE@", negative if the argument is signed. Old compilers omit it. */
static bool take_size(struct parser *parser, struct xp_usdt_operand *operand)
{
	uint64_t bytes = 8;

	if (strchr(parser->at, '@')) {
		operand->is_signed = take(parser, '-');
		if (!take_number(parser, &bytes) || !take(parser, '@'))
			return false;
	}
	operand->bytes = (uint8_t)bytes;
	return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

static struct xp_usdt_operand parse(const struct parser *from, const char *text)
{
	struct xp_usdt_operand operand = { .base = XP_USDT_NO_REGISTER, .index = XP_USDT_NO_REGISTER };
	struct parser parser = *from;

	parser.at = text;
	if (!take_size(&parser, &operand) || !take_operand(&parser, &operand) || *parser.at)
		return (struct xp_usdt_operand){ .kind = XP_USDT_UNSUPPORTED };
	return operand;
}

void xp_usdt_operands(const struct xp_usdt_probe *probe, struct xp_usdt_place *place, xp_usdt_find_symbol *find,
		      void *arg)
{
	const struct parser parser = { .find = find, .arg = arg, .vaddr = probe->vaddr };
	const char *at = probe->arguments + strspn(probe->arguments, " ");
	char text[256];

	*place = (struct xp_usdt_place){ 0 };
	while (*at && place->count < XP_USDT_ARGS_MAX) {
		size_t bytes = strcspn(at, " ");

		/* A longer one is not an operand. */
		memcpy(text, at, XP_MIN(bytes, sizeof(text) - 1));
		text[bytes < sizeof(text) ? bytes : 0] = 0;
		place->operands[place->count++] = parse(&parser, text);
		at += bytes;
		at += strspn(at, " ");
	}
}
