// SPDX-License-Identifier: BSD-2-Clause
#include "trace/flight_writer.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/util.h"

void xp_flight_writer_init(struct xp_flight_writer *writer, int dir_fd, xp_log_maker make_log)
{
	*writer = (struct xp_flight_writer){ .dir_fd = dir_fd, .make_log = make_log };
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	writer->waiting_end = &writer->waiting;
}

/* Writes the jobs. Call it with the lock held; it releases the lock while it writes. */
static void work(struct xp_flight_writer *writer)
{
	struct xp_flight_job *job;

	while ((job = writer->waiting)) {
		writer->waiting = job->next;
		if (!writer->waiting)
			writer->waiting_end = &writer->waiting;
		pthread_mutex_unlock(&writer->lock);
		job->error =
		    xp_flight_write_log(job->flight, writer->dir_fd, &job->info, writer->make_log, &job->result);
		xp_flight_free(job->flight);
		job->flight = NULL;
		pthread_mutex_lock(&writer->lock);
		job->next = writer->done;
		writer->done = job;
		pthread_cond_broadcast(&writer->changed);
	}
	writer->running = false;
}

static void *thread_main(void *arg)
{
	struct xp_flight_writer *writer = arg;

	/* This thread must not have the reader's priority. On Linux, this changes only the calling thread. */
	if (setpriority(PRIO_PROCESS, 0, 0))
		xp_debug("the writer of logs keeps the reader's priority");
	pthread_mutex_lock(&writer->lock);
	work(writer);
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

static int start(struct xp_flight_writer *writer)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The main thread handles signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, thread_main, writer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

void xp_flight_writer_add(struct xp_flight_writer *writer, struct xp_flight_job *job)
{
	job->next = NULL;
	job->info.final_name = job->name;
	pthread_mutex_lock(&writer->lock);
	*writer->waiting_end = job;
	writer->waiting_end = &job->next;
	if (!writer->running) {
		writer->running = true;
		if (start(writer))
			work(writer); /* there is no thread: write it here */
	}
	pthread_mutex_unlock(&writer->lock);
}

struct xp_flight_job *xp_flight_writer_collect(struct xp_flight_writer *writer, bool wait)
{
	struct xp_flight_job *job;

	pthread_mutex_lock(&writer->lock);
	while (wait && !writer->done && writer->running)
		pthread_cond_wait(&writer->changed, &writer->lock);
	job = writer->done;
	if (job)
		writer->done = job->next;
	pthread_mutex_unlock(&writer->lock);
	return job;
}
