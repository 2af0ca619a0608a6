// SPDX-License-Identifier: BSD-2-Clause
// C++20 coroutines, which have no stack: they are resumed on that of their caller, nested, and in turn.
#if __clang_major__ < 17
#include <new>
namespace std::experimental
{
template <class R, class...> struct coroutine_traits {
	using promise_type = typename R::promise_type;
};
template <class P = void> struct coroutine_handle;
template <> struct coroutine_handle<void> {
	void *frame = nullptr;
	static coroutine_handle from_address(void *a) noexcept
	{
		coroutine_handle h;
		h.frame = a;
		return h;
	}
	void *address() const noexcept
	{
		return frame;
	}
	void resume()
	{
		__builtin_coro_resume(frame);
	}
	void destroy()
	{
		__builtin_coro_destroy(frame);
	}
	bool done() const
	{
		return __builtin_coro_done(frame);
	}
};
template <class P> struct coroutine_handle : coroutine_handle<void> {
	static coroutine_handle from_address(void *a) noexcept
	{
		coroutine_handle h;
		h.frame = a;
		return h;
	}
	static coroutine_handle from_promise(P &p)
	{
		return from_address(__builtin_coro_promise(&p, alignof(P), true));
	}
};
struct suspend_always {
	bool await_ready() noexcept
	{
		return false;
	}
	void await_suspend(coroutine_handle<>) noexcept
	{
	}
	void await_resume() noexcept
	{
	}
};
} // namespace std::experimental
namespace co = std::experimental;
#else
#include <coroutine>
namespace co = std;
#endif
#include "go.h"

static long calls_of_leaf, calls_of_drive;

struct task {
	struct promise_type {
		UNTRACED task get_return_object()
		{
			return { co::coroutine_handle<promise_type>::from_promise(*this) };
		}
		UNTRACED co::suspend_always initial_suspend()
		{
			return {};
		}
		UNTRACED co::suspend_always final_suspend() noexcept
		{
			return {};
		}
		UNTRACED co::suspend_always yield_value(int)
		{
			return {};
		}
		UNTRACED void return_void()
		{
		}
		UNTRACED void unhandled_exception()
		{
		}
	};
	co::coroutine_handle<promise_type> handle;
};

extern "C" TRACED void leaf(int n)
{
	COUNT(leaf);
	__asm__ volatile("" : : "r"(n) : "memory");
}

static task counter(int n)
{
	for (int i = 0; i < n; i++) {
		leaf(i);
		co_yield i;
	}
}

static task nested(int n)
{
	task inner = counter(n);

	for (int i = 0; i < n; i++) {
		inner.handle.resume();
		leaf(i);
		co_yield i;
	}
	inner.handle.destroy();
}

extern "C" TRACED void drive(task *tasks, int count)
{
	COUNT(drive);
	for (int i = 0; i < count; i++)
		if (!tasks[i].handle.done())
			tasks[i].handle.resume();
}

int main()
{
	task tasks[40];

	for (int i = 0; i < 40; i++)
		tasks[i] = nested(50);
	for (int i = 0; i < 60; i++)
		drive(tasks, 40);
	for (task &task : tasks)
		task.handle.destroy();
	PRINT_COUNT(leaf);
	PRINT_COUNT(drive);
	return 0;
}
