/* Parameter lists and argument lists of 0 to 16 handler arguments, for programs that test every
 * count. */
#ifndef COMPAT_TESTS_ARGUMENTS_H
#define COMPAT_TESTS_ARGUMENTS_H

/* The value of argument `i` of a message with `n` arguments: differs in all bytes, and is negative
 * for odd i. */
#define ARG_VALUE(n, i) \
    ((gex_AM_Arg_t)(((i) % 2) ? -(0x01020304 * ((i) % 7 + 1) + (n)*65536 + (i)) : (0x10203040 + (n)*4096 + (i)*257)))

/* Parameters of a handler with n arguments, after those that every handler has. */
#define PARAMS_0
#define PARAMS_1 , gex_AM_Arg_t a0
#define PARAMS_2 PARAMS_1, gex_AM_Arg_t a1
#define PARAMS_3 PARAMS_2, gex_AM_Arg_t a2
#define PARAMS_4 PARAMS_3, gex_AM_Arg_t a3
#define PARAMS_5 PARAMS_4, gex_AM_Arg_t a4
#define PARAMS_6 PARAMS_5, gex_AM_Arg_t a5
#define PARAMS_7 PARAMS_6, gex_AM_Arg_t a6
#define PARAMS_8 PARAMS_7, gex_AM_Arg_t a7
#define PARAMS_9 PARAMS_8, gex_AM_Arg_t a8
#define PARAMS_10 PARAMS_9, gex_AM_Arg_t a9
#define PARAMS_11 PARAMS_10, gex_AM_Arg_t a10
#define PARAMS_12 PARAMS_11, gex_AM_Arg_t a11
#define PARAMS_13 PARAMS_12, gex_AM_Arg_t a12
#define PARAMS_14 PARAMS_13, gex_AM_Arg_t a13
#define PARAMS_15 PARAMS_14, gex_AM_Arg_t a14
#define PARAMS_16 PARAMS_15, gex_AM_Arg_t a15

/* Arguments in a call that sends n of them. */
#define SEND_0
#define SEND_1(n) , ARG_VALUE(n, 0)
#define SEND_2(n) SEND_1(n), ARG_VALUE(n, 1)
#define SEND_3(n) SEND_2(n), ARG_VALUE(n, 2)
#define SEND_4(n) SEND_3(n), ARG_VALUE(n, 3)
#define SEND_5(n) SEND_4(n), ARG_VALUE(n, 4)
#define SEND_6(n) SEND_5(n), ARG_VALUE(n, 5)
#define SEND_7(n) SEND_6(n), ARG_VALUE(n, 6)
#define SEND_8(n) SEND_7(n), ARG_VALUE(n, 7)
#define SEND_9(n) SEND_8(n), ARG_VALUE(n, 8)
#define SEND_10(n) SEND_9(n), ARG_VALUE(n, 9)
#define SEND_11(n) SEND_10(n), ARG_VALUE(n, 10)
#define SEND_12(n) SEND_11(n), ARG_VALUE(n, 11)
#define SEND_13(n) SEND_12(n), ARG_VALUE(n, 12)
#define SEND_14(n) SEND_13(n), ARG_VALUE(n, 13)
#define SEND_15(n) SEND_14(n), ARG_VALUE(n, 14)
#define SEND_16(n) SEND_15(n), ARG_VALUE(n, 15)
#define ARGS_0
#define ARGS_1 SEND_1(1)
#define ARGS_2 SEND_2(2)
#define ARGS_3 SEND_3(3)
#define ARGS_4 SEND_4(4)
#define ARGS_5 SEND_5(5)
#define ARGS_6 SEND_6(6)
#define ARGS_7 SEND_7(7)
#define ARGS_8 SEND_8(8)
#define ARGS_9 SEND_9(9)
#define ARGS_10 SEND_10(10)
#define ARGS_11 SEND_11(11)
#define ARGS_12 SEND_12(12)
#define ARGS_13 SEND_13(13)
#define ARGS_14 SEND_14(14)
#define ARGS_15 SEND_15(15)
#define ARGS_16 SEND_16(16)

/* Inside a handler with n arguments: checks each of them. */
#define VERIFY_0(n) (void)0
#define VERIFY_1(n) CHECKF(a0 == ARG_VALUE(n, 0), "argument 0 of %d is %#x", n, (unsigned)a0)
#define VERIFY_2(n) \
    VERIFY_1(n);    \
    CHECKF(a1 == ARG_VALUE(n, 1), "argument 1 of %d is %#x", n, (unsigned)a1)
#define VERIFY_3(n) \
    VERIFY_2(n);    \
    CHECKF(a2 == ARG_VALUE(n, 2), "argument 2 of %d is %#x", n, (unsigned)a2)
#define VERIFY_4(n) \
    VERIFY_3(n);    \
    CHECKF(a3 == ARG_VALUE(n, 3), "argument 3 of %d is %#x", n, (unsigned)a3)
#define VERIFY_5(n) \
    VERIFY_4(n);    \
    CHECKF(a4 == ARG_VALUE(n, 4), "argument 4 of %d is %#x", n, (unsigned)a4)
#define VERIFY_6(n) \
    VERIFY_5(n);    \
    CHECKF(a5 == ARG_VALUE(n, 5), "argument 5 of %d is %#x", n, (unsigned)a5)
#define VERIFY_7(n) \
    VERIFY_6(n);    \
    CHECKF(a6 == ARG_VALUE(n, 6), "argument 6 of %d is %#x", n, (unsigned)a6)
#define VERIFY_8(n) \
    VERIFY_7(n);    \
    CHECKF(a7 == ARG_VALUE(n, 7), "argument 7 of %d is %#x", n, (unsigned)a7)
#define VERIFY_9(n) \
    VERIFY_8(n);    \
    CHECKF(a8 == ARG_VALUE(n, 8), "argument 8 of %d is %#x", n, (unsigned)a8)
#define VERIFY_10(n) \
    VERIFY_9(n);     \
    CHECKF(a9 == ARG_VALUE(n, 9), "argument 9 of %d is %#x", n, (unsigned)a9)
#define VERIFY_11(n) \
    VERIFY_10(n);    \
    CHECKF(a10 == ARG_VALUE(n, 10), "argument 10 of %d is %#x", n, (unsigned)a10)
#define VERIFY_12(n) \
    VERIFY_11(n);    \
    CHECKF(a11 == ARG_VALUE(n, 11), "argument 11 of %d is %#x", n, (unsigned)a11)
#define VERIFY_13(n) \
    VERIFY_12(n);    \
    CHECKF(a12 == ARG_VALUE(n, 12), "argument 12 of %d is %#x", n, (unsigned)a12)
#define VERIFY_14(n) \
    VERIFY_13(n);    \
    CHECKF(a13 == ARG_VALUE(n, 13), "argument 13 of %d is %#x", n, (unsigned)a13)
#define VERIFY_15(n) \
    VERIFY_14(n);    \
    CHECKF(a14 == ARG_VALUE(n, 14), "argument 14 of %d is %#x", n, (unsigned)a14)
#define VERIFY_16(n) \
    VERIFY_15(n);    \
    CHECKF(a15 == ARG_VALUE(n, 15), "argument 15 of %d is %#x", n, (unsigned)a15)

/* Applies a macro to every count. */
#define FOR_ALL_COUNTS(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15) m(16)

/* Calls `f` after its arguments were expanded, so that an argument list macro becomes separate
 * arguments. */
#define CALL(f, ...) CALL_EXPANDED(f, __VA_ARGS__)
#define CALL_EXPANDED(f, ...) f(__VA_ARGS__)

#endif
