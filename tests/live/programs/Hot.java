// SPDX-License-Identifier: BSD-2-Clause
// Runs for so many seconds, all in hotLoop() and what it calls.
public class Hot {
	static int leaf(int n) {
		int s = 0;
		for (int i = 0; i < n; i++)
			s = s * 31 + i;
		return s;
	}

	static int hotLoop(int n) {
		int s = 0;
		for (int i = 0; i < 100; i++)
			s += leaf(n + s % 7);
		return s;
	}

	public static void main(String[] args) {
		long end = System.currentTimeMillis() + 1000L * Integer.parseInt(args[0]);
		int sum = 0;
		while (System.currentTimeMillis() < end)
			sum += hotLoop(1000);
		System.out.println(sum);
	}
}
