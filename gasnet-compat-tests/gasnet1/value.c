// Values of 1 to 8 bytes in registers: puts (blocking, with a handle, implicit) and gets (blocking,
// with a handle, many at once).
// NP: 1 2 4
// TIMEOUT: 60
#include "check1.h"

enum { MANY = 500 };

static gasnet_register_value_t cut(gasnet_register_value_t value, size_t bytes) {
    return bytes == sizeof value ? value : value & (((gasnet_register_value_t)1 << (8 * bytes)) - 1);
}

int main(int argc, char **argv) {
    const gasnet_register_value_t value = (gasnet_register_value_t)UINT64_C(0xf1e2d3c4b5a69788);
    gasnet_valget_handle_t gets[MANY];
    gasnet1_init("value", &argc, &argv);
    gasnet1_attach(NULL, 0, (uintptr_t)np * MANY * 8);
    gasnet1_barrier();
    for (gasnet_node_t hop = 0; hop < np; hop++) {
        gasnet_node_t peer = (me + hop) % np;
        char *cell = at(peer, (size_t)me * MANY * 8);
        for (size_t bytes = 1; bytes <= SIZEOF_GASNET_REGISTER_VALUE_T; bytes++) {
            for (int kind = 0; kind < 3; kind++) {
                uint64_t wide = UINT64_MAX;
                PHASE("put");
                gasnet_memset(peer, cell, 0xab, 24);
                if (kind == 0) gasnet_put_val(peer, cell + 8, value, bytes);
                else if (kind == 1) gasnet_wait_syncnb(gasnet_put_nb_val(peer, cell + 8, value, bytes));
                else gasnet_put_nbi_val(peer, cell + 8, value, bytes);
                if (kind == 2) gasnet_wait_syncnbi_puts();
                CHECK(gasnet_get_val(peer, cell + 7, 1) == 0xab && gasnet_get_val(peer, cell + 8 + bytes, 1) == 0xab);
                CHECK(gasnet_get_val(peer, cell + 8, bytes) == cut(value, bytes));
                gasnet_get(&wide, peer, cell + 8, 8);
                if (bytes == 1) CHECK(*(unsigned char *)&wide == 0x88);
                if (bytes == 4) {
                    uint32_t low;
                    memcpy(&low, &wide, sizeof low);
                    CHECK(low == 0xb5a69788U);
                }
                PHASE("get");
                CHECK(gasnet_wait_syncnb_valget(gasnet_get_nb_val(peer, cell + 8, bytes)) == cut(value, bytes));
            }
        }
        PHASE("many gets at once, synced in another order");
        for (size_t i = 0; i < MANY; i++)
            gasnet_put_nbi_val(peer, cell + 8 * i, (gasnet_register_value_t)(i * 1000003 + me), 8);
        gasnet_wait_syncnbi_all();
        for (size_t i = 0; i < MANY; i++) gets[i] = gasnet_get_nb_val(peer, cell + 8 * i, i % 8 + 1);
        for (size_t i = 0; i < MANY; i++) {
            size_t j = (i * 7) % MANY;
            CHECK(gasnet_wait_syncnb_valget(gets[j]) == cut((gasnet_register_value_t)(j * 1000003 + me), j % 8 + 1));
        }
        gasnet1_barrier();
    }
    return test_finish();
}
