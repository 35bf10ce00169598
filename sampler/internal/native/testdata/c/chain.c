// A C program with a Go library. The program replaces the handler of SIGURG by its own, which calls the old
// one, as libraries do that share a signal.
//	chain none     without a session
//	chain before   the handler is installed before the session, which then cannot use the signal
//	chain during   the handler is installed during a session
//	chain after    the handler is installed during a session, which ends before the work begins
//	chain reporter before   like before, and also for SIGSEGV, as crash reporters do
//	chain reporter during   like during, and also for SIGSEGV
#include "call.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern int GoStart(void), GoStop(void), GoSamples(void);
extern long GoWork(int);
extern void GoSleep(int);

static struct sigaction old;
static volatile long calls, wrong;

static void on(int sig, siginfo_t *info, void *ctx) {
	int saved = errno;
	long lost = call_checked(old.sa_sigaction, sig, info, ctx);
	errno = saved;
	if (lost) __sync_fetch_and_or(&wrong, lost);
	__sync_fetch_and_add(&calls, 1);
}

static void *work(void *arg) {
	long t = 0;
	for (int i = 0; i < 30; i++) t += GoWork(50 + i % 7);
	return (void *)t;
}

static long all(int signals) {
	pthread_t t[4];
	long sum = 0;
	for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, 0);
	for (int i = 0; i < signals; i++) kill(getpid(), SIGURG), usleep(500);
	for (int i = 0; i < 4; i++) {
		void *r;
		pthread_join(t[i], &r);
		sum += (long)r;
	}
	return sum;
}

static void take(int reporter) {
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = on;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigfillset(&sa.sa_mask);
	sigaction(SIGURG, 0, &old); // before the handler can be called, which calls old
	sigaction(SIGURG, &sa, 0);
	if (reporter) sigaction(SIGSEGV, &sa, 0);
}

int main(int argc, char **argv) {
	int reporter = argc > 2;
	const char *mode = argv[1 + reporter];
	long before = all(0), now;
	int native = 0, failed = 0;
	if (!strcmp(mode, "before")) take(reporter);
	if (strcmp(mode, "none")) native = GoStart();
	GoSleep(20);
	if (strcmp(mode, "before")) take(reporter);
	if (!strcmp(mode, "after")) failed = GoStop();
	now = all(50);
	if (strcmp(mode, "none") && strcmp(mode, "after")) failed = GoStop();
	long later = all(10);
	char text[200] = "";
	name_lost(wrong, text);
	printf("native %d, ended early %d, %d samples, %s; sums %s; lost registers:%s\n", native, failed,
		strcmp(mode, "none") ? GoSamples() : 0, calls > 0 ? "called" : "not called",
		before == now && now == later ? "right" : "WRONG", wrong ? text : " none");
	if (native && !strcmp(mode, "before")) return 1;
	if (wrong || before != now || now != later || !calls) return 1;
	puts("ok");
	return 0;
}
