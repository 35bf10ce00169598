// loader runs a library: one that is linked into it, or the shared one that its first argument names. Others that are named it only loads, before.
#include <dlfcn.h>

void Run(void);

int main(int argc, char **argv) {
#ifdef RUN
	Run();
#else
	void *library = 0;
	for (int i = argc - 1; i > 0; i--)
		library = dlopen(argv[i], RTLD_NOW);
	if (!library)
		return 1;
	((void (*)(void))dlsym(library, "Run"))();
#endif
	return 0;
}
