// loader runs a library: one that is linked into it, or the shared one that its first argument names.
#include <dlfcn.h>

void Run(void);

int main(int argc, char **argv) {
#ifdef RUN
	Run();
#else
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
	if (!library)
		return 1;
	((void (*)(void))dlsym(library, "Run"))();
#endif
	return 0;
}
