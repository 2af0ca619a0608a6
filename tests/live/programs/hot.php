<?php
// SPDX-License-Identifier: BSD-2-Clause
// Runs for so many seconds, all in hot_loop() and what it calls.
function leaf($n) {
	$s = 0;
	for ($i = 0; $i < $n; $i++)
		$s = ($s * 31 + $i) & 0xffffff;
	return $s;
}
function hot_loop($n) {
	$s = 0;
	for ($i = 0; $i < 100; $i++)
		$s += leaf($n);
	return $s;
}
$end = microtime(true) + $argv[1];
$sum = 0;
while (microtime(true) < $end)
	$sum += hot_loop(1000);
