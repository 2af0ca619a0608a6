%% SPDX-License-Identifier: BSD-2-Clause
%% Runs until it is killed, all in loop/2.
-module(hot).
-export([start/0]).

start() ->
    loop(100000, 1),
    start().

loop(0, Sum) -> Sum;
loop(N, Sum) -> loop(N - 1, (Sum * 31 + N) band 16#ffffff).
