/* Opens the plugin that its argument names, starts a job with it, closes it, and returns from
 * main. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    union {
        void *object;
        int (*function)(int *, char ***);
    } start;
    if (!plugin) {
        printf("%s\n", dlerror());
        return 2;
    }
    start.object = dlsym(plugin, "plugin_start");
    if (!start.object || start.function(&argc, &argv)) return 3;
    return dlclose(plugin) ? 4 : 0;
}
