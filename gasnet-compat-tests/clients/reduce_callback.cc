// Reductions with the client's own function: a C++ lambda that calls an object behind cdata, in
// place (upcxx), and a function with C linkage, as the wrapper of a callback in another language
// (caffeine).
// NP: 1 2 3 4 7
// TIMEOUT: 60
#include "check.h"

#include <gasnet_coll.h>

struct Extremes { // of one element: smallest, largest, how many
    int32_t least, most;
    uint64_t count;
};

struct Combine {
    unsigned calls;
    void operator()(const Extremes &a, Extremes &b) {
        calls++;
        if (a.least < b.least) b.least = a.least;
        if (a.most > b.most) b.most = a.most;
        b.count += a.count;
    }
};

// caffeine: cdata is the callback itself
typedef void (*callback)(const int64_t *, int64_t *, size_t);
static void multiply(const int64_t *a, int64_t *b, size_t n) {
    for (size_t i = 0; i < n; i++) b[i] *= a[i];
}
extern "C" {
static void wrapper(const void *arg1, void *arg2_and_out, size_t count, const void *cdata) {
    (*static_cast<const callback *>(cdata))(static_cast<const int64_t *>(arg1), static_cast<int64_t *>(arg2_and_out),
                                            count);
}
}

int main(int argc, char **argv) {
    enum { ELEMENTS = 300 };
    static Extremes data[ELEMENTS];
    static int64_t factors[ELEMENTS];
    Combine combine = {0};
    callback function = multiply;
    test_init("reduce_callback", &argc, &argv);
    for (int i = 0; i < ELEMENTS; i++) {
        data[i].least = data[i].most = static_cast<int32_t>(me) * 10 + i;
        data[i].count = 1;
        factors[i] = static_cast<int64_t>(me % 3) + 1;
    }
    PHASE("a lambda, in place, to all");
    gex_Coll_ReduceFn_t call = [](const void *a, void *b, size_t n, const void *cdata) {
        Combine *object = static_cast<Combine *>(const_cast<void *>(cdata));
        for (size_t i = 0; i < n; i++) (*object)(static_cast<const Extremes *>(a)[i], static_cast<Extremes *>(b)[i]);
    };
    gex_Event_t event =
        gex_Coll_ReduceToAllNB(tm, data, data, GEX_DT_USER, sizeof data[0], ELEMENTS, GEX_OP_USER, call, &combine, 0);
    gex_Event_Wait(event);
    for (int i = 0; i < ELEMENTS; i++) {
        CHECK(data[i].least == i && data[i].most == static_cast<int32_t>(np - 1) * 10 + i && data[i].count == np);
    }
    CHECK(np > 1 || combine.calls == 0);
    PHASE("C linkage, in place, to one");
    int64_t expected = 1;
    for (gex_Rank_t r = 0; r < np; r++) expected *= static_cast<int64_t>(r % 3) + 1;
    event = gex_Coll_ReduceToOneNB(tm, np - 1, factors, factors, GEX_DT_USER, sizeof factors[0], ELEMENTS, GEX_OP_USER,
                                   wrapper, &function, 0);
    gex_Event_Wait(event);
    if (me == np - 1) {
        for (int i = 0; i < ELEMENTS; i++) CHECK(factors[i] == expected);
    }
    return test_finish();
}
