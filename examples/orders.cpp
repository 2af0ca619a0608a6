// SPDX-License-Identifier: BSD-2-Clause
/*
 * A small shop that runs until it is killed: orders are parsed, checked and booked; the bad ones are refused by an
 * exception that crosses several frames. Names are C++ ones, to see them demangled.
 */
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

namespace shop
{

struct Order {
	std::string item;
	int count;
};

class Stock
{
      public:
	NOINLINE void take(const Order &order)
	{
		int &left = items_[order.item];

		if (left < order.count)
			throw std::runtime_error("out of stock: " + order.item);
		left -= order.count;
	}

	NOINLINE void refill()
	{
		for (const char *item : { "apple", "pear", "plum" })
			items_[item] = 100;
	}

      private:
	std::map<std::string, int> items_;
};

NOINLINE Order parse(unsigned int number)
{
	static const char *const items[] = { "apple", "pear", "plum", "melon" };

	return { items[number % 4], static_cast<int>(number % 7) + 1 };
}

NOINLINE void book(Stock &stock, unsigned int number)
{
	stock.take(parse(number));
}

NOINLINE bool serve(Stock &stock, unsigned int number)
{
	try {
		book(stock, number);
		return true;
	} catch (const std::runtime_error &) {
		return false;
	}
}

} // namespace shop

int main()
{
	shop::Stock stock;
	unsigned int refused = 0;

	std::printf("%d\n", static_cast<int>(getpid()));
	std::fflush(stdout);
	for (unsigned int number = 0;; number++) {
		if (number % 50 == 0)
			stock.refill();
		refused += !shop::serve(stock, number);
		usleep(2000);
	}
}
