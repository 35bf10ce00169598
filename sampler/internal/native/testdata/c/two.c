// A C program with two Go libraries, each with a runtime and a profiler of its own.
//	two A.so B.so none       no session
//	two A.so B.so first      a session in A, which was loaded first
//	two A.so B.so second     a session in B, whose runtime has the handlers
//	two A.so B.so both       a session in each
//	two A.so B.so late       a session in A, and B is loaded during it
//	two A.so B.so nested     a session in A, then one in B, which ends first
//	two A.so B.so crossed    a session in A, then one in B, which ends last
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lib {
	int (*start)(void), (*stop)(void), (*samples)(void);
	long (*work)(int);
};

static void open_lib(struct lib *l, const char *path) {
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so) puts(dlerror()), exit(2);
	l->start = (int (*)(void))dlsym(so, "GoStart");
	l->stop = (int (*)(void))dlsym(so, "GoStop");
	l->samples = (int (*)(void))dlsym(so, "GoSamples");
	l->work = (long (*)(int))dlsym(so, "GoWork");
}

static struct lib a, b;

static void *work(void *arg) {
	struct lib *l = arg;
	long t = 0;
	for (int i = 0; i < 20; i++) t += l->work(50 + i % 7);
	return (void *)t;
}

static long all(int with_b) {
	pthread_t t[4];
	long sum = 0;
	for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, i & 1 && with_b ? &b : &a);
	for (int i = 0; i < 20; i++) kill(getpid(), SIGURG), usleep(500);
	for (int i = 0; i < 4; i++) {
		void *r;
		pthread_join(t[i], &r);
		sum += (long)r;
	}
	return sum;
}

int main(int argc, char **argv) {
	const char *mode = argv[3];
	int nested = !strcmp(mode, "nested"), crossed = !strcmp(mode, "crossed"), late = !strcmp(mode, "late") || nested || crossed;
	int both = !strcmp(mode, "both"), in_a = late || both || !strcmp(mode, "first"), in_b = nested || crossed || both || !strcmp(mode, "second");
	int native_a = 0, native_b = 0, early_a = 0, early_b = 0;
	open_lib(&a, argv[1]);
	if (!late) open_lib(&b, argv[2]);
	long before = all(!late);
	if (in_a) native_a = a.start();
	if (late) {
		usleep(50000);
		open_lib(&b, argv[2]);
	}
	if (in_b) native_b = b.start();
	usleep(20000);
	long during = all(1);
	if (in_b && !crossed) early_b = b.stop();
	if (in_a) early_a = a.stop();
	if (crossed) early_b = b.stop();
	long after = all(1);
	printf("native %d %d, ended early %d %d, %d and %d samples; sums %s\n", native_a, native_b, early_a, early_b,
		a.samples(), b.samples(), before == during && during == after ? "right" : "WRONG");
	if (before != during || during != after) return 1;
	puts("ok");
	return 0;
}
