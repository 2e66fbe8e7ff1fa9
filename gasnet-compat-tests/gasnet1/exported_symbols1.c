// The functions of GASNet-1 through their symbols: gasnet_init, which has an inline form, and one
// of each kind of the others.
// NP: 1 2
// TIMEOUT: 60
#include "check1.h"

#undef gasnet_init

static int (*volatile init)(int *, char ***) = gasnet_init;
static int (*volatile attach)(gasnet_handlerentry_t *, int, uintptr_t, uintptr_t) = gasnet_attach;
static gasnet_node_t (*volatile mynode)(void) = gasnet_mynode;
static gasnet_node_t (*volatile nodes)(void) = gasnet_nodes;
static int (*volatile request)(gasnet_node_t, gasnet_handler_t, const void *, size_t,
                               gasnet_handlerarg_t) = gasnet_AMRequestMedium1;
static void (*volatile put)(gasnet_node_t, void *, const void *, size_t) = gasnet_put_bulk;
static gasnet_handle_t (*volatile get_nb)(void *, gasnet_node_t, void *, size_t) = gasnet_get_nb;
static void (*volatile wait_syncnb)(gasnet_handle_t) = gasnet_wait_syncnb;
static void (*volatile lock)(gasnet_hsl_t *) = gasnet_hsl_lock;
static void (*volatile unlock)(gasnet_hsl_t *) = gasnet_hsl_unlock;

static int arrived;
static gasnet_hsl_t hsl = GASNET_HSL_INITIALIZER;

static void on_medium(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t x) {
    CHECK(bytes == 5 && !memcmp(buffer, "hello", 5) && x == -9);
    ATOMIC_ADD(&arrived, 1);
}

int main(int argc, char **argv) {
    gasnet_handlerentry_t table[] = {{0, (gex_AM_Fn_t)on_medium}};
    char text[8] = "";
    test_name = "exported_symbols1";
    if (init(&argc, &argv) != GASNET_OK) return 1;
    test_start_watchdog();
    me = mynode();
    np = nodes();
    OK(attach(table, 1, GASNET_PAGESIZE, 0));
    gasnet1_look_around();
    gasnet1_barrier();
    gasnet_node_t peer = (me + 1) % np;
    OK(request(peer, table[0].index, "hello", 5, -9));
    put(peer, at(peer, 100), "world", 6);
    wait_syncnb(get_nb(text, peer, at(peer, 100), 6));
    CHECK(!strcmp(text, "world"));
    lock(&hsl);
    unlock(&hsl);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == 1);
    return test_finish();
}
