// SPDX-License-Identifier: BSD-2-Clause
/*
 * A small server with three faults, and the clients that it serves. Most requests take some microseconds. One in a
 * hundred is slow:
 *
 *	lock   refresh_cache() holds the lock of the cache while it sleeps, and lookup() waits for that lock
 *	disk   save_orders() writes all orders and waits for fsync(2)
 *	CPU    report() compares each new order with each other one
 *
 * The server runs until it is killed. It prints its process ID for `sudo xprof record -p`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

#define CONNECTIONS 2
#define PAUSE_US 3000 /* between the requests of a client */
#define REFRESH_EVERY_US 900000
#define REFRESH_US 80000
#define SAVE_EVERY 300 /* requests */
#define REPORT_EVERY 250
#define ORDERS (1 << 20)
#define NEW_ORDERS 9000

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static int prices[1000], order_file;
static unsigned int orders[ORDERS];
static volatile unsigned long sink;

/* ---- the server ---- */

NOINLINE static int lookup(unsigned int item)
{
	int price;

	pthread_mutex_lock(&cache_lock);
	price = prices[item % 1000];
	pthread_mutex_unlock(&cache_lock);
	return price;
}

NOINLINE static void save_orders(void)
{
	if (pwrite(order_file, orders, sizeof(orders), 0) < 0 || fsync(order_file))
		abort();
}

NOINLINE static void report(void)
{
	unsigned long same = 0;

	for (int i = 0; i < NEW_ORDERS; i++)
		for (int j = 0; j < NEW_ORDERS; j++)
			same += orders[i] == orders[j];
	sink = same;
}

NOINLINE static unsigned int parse(unsigned int request)
{
	return request * 2654435761u;
}

NOINLINE static int handle_request(unsigned int request)
{
	int price = lookup(parse(request));

	orders[request % ORDERS] = request;
	if (request % SAVE_EVERY == 0)
		save_orders();
	if (request % REPORT_EVERY == 1)
		report();
	return price;
}

NOINLINE static void *serve(void *connection)
{
	int fd = *(int *)connection, price;
	unsigned int request;

	while (read(fd, &request, sizeof(request)) == sizeof(request)) {
		price = handle_request(request);
		if (write(fd, &price, sizeof(price)) < 0)
			break;
	}
	return NULL;
}

NOINLINE static void refresh_cache(void)
{
	pthread_mutex_lock(&cache_lock);
	usleep(REFRESH_US); /* asks another service for the prices */
	for (int i = 0; i < 1000; i++)
		prices[i] = rand();
	pthread_mutex_unlock(&cache_lock);
}

static void *refresher(void *arg)
{
	for (;;) {
		usleep(REFRESH_EVERY_US);
		refresh_cache();
	}
	return arg;
}

/* ---- the clients ---- */

static void *client(void *connection)
{
	static unsigned int last;
	int fd = *(int *)connection, price;
	unsigned int request;

	do {
		usleep(PAUSE_US);
		request = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	} while (write(fd, &request, sizeof(request)) > 0 && read(fd, &price, sizeof(price)) > 0);
	return NULL;
}

static void start(void *(*run)(void *), void *arg, const char *name)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		abort();
	pthread_setname_np(thread, name);
}

int main(void)
{
	static int connections[CONNECTIONS][2];
	char path[] = "/var/tmp/server-XXXXXX";

	order_file = mkstemp(path);
	if (order_file < 0 || unlink(path))
		return 1;
	for (int i = 0; i < CONNECTIONS; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, connections[i]))
			return 1;
		start(serve, &connections[i][0], "worker");
		start(client, &connections[i][1], "client");
	}
	start(refresher, NULL, "refresher");
	printf("%d\n", (int)getpid());
	fflush(stdout);
	pause();
	return 0;
}
