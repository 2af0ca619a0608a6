// SPDX-License-Identifier: BSD-2-Clause
/* Some 4 MB of code and debug information. The program `large` has it many times. */
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

template <int N> struct key {
	long a, b;
	bool operator<(const key &other) const
	{
		return a < other.a || (a == other.a && b < other.b);
	}
};

template <int N> __attribute__((noinline)) long work(long seed)
{
	std::map<key<N>, std::string> texts;
	std::unordered_map<long, key<N>> by_number;
	std::vector<key<N>> sorted;

	for (long i = 0; i < 30; i++)
		sorted.push_back({ (seed ^ i * 77) % 31, i });
	std::sort(sorted.begin(), sorted.end());
	for (auto &each : sorted) {
		texts[each] = std::to_string(each.a * N);
		by_number[each.b] = each;
	}
	return texts.size() + by_number.size();
}

template <int N> long all(long sum)
{
	sum += work<N>(sum);
	if constexpr (N > 0)
		return all<N - 1>(sum);
	return sum;
}

} // namespace

extern "C" long part(long seed)
{
	return all<19>(seed);
}
