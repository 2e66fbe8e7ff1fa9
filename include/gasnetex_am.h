// gasnetex_am.h: Active Message injection. Included by gasnetex.h only.
//
// Every argument count 0 to 16 is a function of its own (gex_AM_RequestShort0 … 16); the names
// without a number are macros that count their arguments.
#ifndef GASNETEX_AM_H
#define GASNETEX_AM_H

#ifdef __cplusplus
extern "C" {
#endif

// The handler arguments of a prototype with N of them.
#define GASNETI_AM_ARGS_0
#define GASNETI_AM_ARGS_1 , gex_AM_Arg_t
#define GASNETI_AM_ARGS_2 GASNETI_AM_ARGS_1, gex_AM_Arg_t
#define GASNETI_AM_ARGS_3 GASNETI_AM_ARGS_2, gex_AM_Arg_t
#define GASNETI_AM_ARGS_4 GASNETI_AM_ARGS_3, gex_AM_Arg_t
#define GASNETI_AM_ARGS_5 GASNETI_AM_ARGS_4, gex_AM_Arg_t
#define GASNETI_AM_ARGS_6 GASNETI_AM_ARGS_5, gex_AM_Arg_t
#define GASNETI_AM_ARGS_7 GASNETI_AM_ARGS_6, gex_AM_Arg_t
#define GASNETI_AM_ARGS_8 GASNETI_AM_ARGS_7, gex_AM_Arg_t
#define GASNETI_AM_ARGS_9 GASNETI_AM_ARGS_8, gex_AM_Arg_t
#define GASNETI_AM_ARGS_10 GASNETI_AM_ARGS_9, gex_AM_Arg_t
#define GASNETI_AM_ARGS_11 GASNETI_AM_ARGS_10, gex_AM_Arg_t
#define GASNETI_AM_ARGS_12 GASNETI_AM_ARGS_11, gex_AM_Arg_t
#define GASNETI_AM_ARGS_13 GASNETI_AM_ARGS_12, gex_AM_Arg_t
#define GASNETI_AM_ARGS_14 GASNETI_AM_ARGS_13, gex_AM_Arg_t
#define GASNETI_AM_ARGS_15 GASNETI_AM_ARGS_14, gex_AM_Arg_t
#define GASNETI_AM_ARGS_16 GASNETI_AM_ARGS_15, gex_AM_Arg_t

#define GASNETI_AM_EACH_COUNT(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

// Fixed payload. 0: sent; not 0: nothing was sent, only with GEX_FLAG_IMMEDIATE.
#define GASNETI_AM_FIXED(N)                                                                                            \
    extern int gex_AM_RequestShort##N(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,                            \
                                      gex_Flags_t flags GASNETI_AM_ARGS_##N);                                          \
    extern int gex_AM_RequestMedium##N(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *source_addr,  \
                                       size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags GASNETI_AM_ARGS_##N);     \
    extern int gex_AM_RequestLong##N(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *source_addr,    \
                                     size_t nbytes, void *dest_addr, gex_Event_t *lc_opt,                              \
                                     gex_Flags_t flags GASNETI_AM_ARGS_##N);                                           \
    extern int gex_AM_ReplyShort##N(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags GASNETI_AM_ARGS_##N); \
    extern int gex_AM_ReplyMedium##N(gex_Token_t token, gex_AM_Index_t handler, const void *source_addr,               \
                                     size_t nbytes, gex_Event_t *lc_opt, gex_Flags_t flags GASNETI_AM_ARGS_##N);       \
    extern int gex_AM_ReplyLong##N(gex_Token_t token, gex_AM_Index_t handler, const void *source_addr, size_t nbytes,  \
                                   void *dest_addr, gex_Event_t *lc_opt, gex_Flags_t flags GASNETI_AM_ARGS_##N);
GASNETI_AM_EACH_COUNT(GASNETI_AM_FIXED)
#undef GASNETI_AM_FIXED

// Negotiated payload, first phase: a descriptor, or GEX_AM_SRCDESC_NO_OP, only with
// GEX_FLAG_IMMEDIATE.
extern gex_AM_SrcDesc_t gex_AM_PrepareRequestMedium(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                                    size_t least_payload, size_t most_payload, gex_Event_t *lc_opt,
                                                    gex_Flags_t flags, unsigned int numargs);
extern gex_AM_SrcDesc_t gex_AM_PrepareReplyMedium(gex_Token_t token, const void *client_buf, size_t least_payload,
                                                  size_t most_payload, gex_Event_t *lc_opt, gex_Flags_t flags,
                                                  unsigned int numargs);
extern gex_AM_SrcDesc_t gex_AM_PrepareRequestLong(gex_TM_t tm, gex_Rank_t rank, const void *client_buf,
                                                  size_t least_payload, size_t most_payload, void *dest_addr,
                                                  gex_Event_t *lc_opt, gex_Flags_t flags, unsigned int numargs);
extern gex_AM_SrcDesc_t gex_AM_PrepareReplyLong(gex_Token_t token, const void *client_buf, size_t least_payload,
                                                size_t most_payload, void *dest_addr, gex_Event_t *lc_opt,
                                                gex_Flags_t flags, unsigned int numargs);
extern void *gex_AM_SrcDescAddr(gex_AM_SrcDesc_t sd);
extern size_t gex_AM_SrcDescSize(gex_AM_SrcDesc_t sd);

// Second phase. The _v2 forms take flags; not 0: nothing was sent and sd is still valid, only with
// GEX_FLAG_IMMEDIATE.
#define GASNETI_AM_COMMIT(N)                                                                                    \
    extern void gex_AM_CommitRequestMedium##N(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                      \
                                              size_t nbytes GASNETI_AM_ARGS_##N);                               \
    extern void gex_AM_CommitReplyMedium##N(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                        \
                                            size_t nbytes GASNETI_AM_ARGS_##N);                                 \
    extern void gex_AM_CommitRequestLong##N(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,         \
                                            void *dest_addr GASNETI_AM_ARGS_##N);                               \
    extern void gex_AM_CommitReplyLong##N(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,           \
                                          void *dest_addr GASNETI_AM_ARGS_##N);                                 \
    extern int gex_AM_CommitRequestMedium##N##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,   \
                                                  gex_Flags_t commit_flags GASNETI_AM_ARGS_##N);                \
    extern int gex_AM_CommitReplyMedium##N##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,     \
                                                gex_Flags_t commit_flags GASNETI_AM_ARGS_##N);                  \
    extern int gex_AM_CommitRequestLong##N##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,     \
                                                void *dest_addr, gex_Flags_t commit_flags GASNETI_AM_ARGS_##N); \
    extern int gex_AM_CommitReplyLong##N##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler, size_t nbytes,       \
                                              void *dest_addr, gex_Flags_t commit_flags GASNETI_AM_ARGS_##N);
GASNETI_AM_EACH_COUNT(GASNETI_AM_COMMIT)
#undef GASNETI_AM_COMMIT

// Instead of the second phase. 0: done.
extern int gex_AM_CancelRequestMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
extern int gex_AM_CancelReplyMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
extern int gex_AM_CancelRequestLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags);
extern int gex_AM_CancelReplyLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags);

#ifdef __cplusplus
}
#endif

// GASNETI_AM_COUNT_F(list) gives the number of arguments beyond the first F, for the families that
// have F of their own. With too many arguments the name that results does not exist and says so.
#define GASNETI_AM_PICK(a1, a2, a3, a4, a5, a6, a7, a8, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, \
                        b15, b16, count, ...)                                                                        \
    count
#define GASNETI_AM_COUNT_3(...)                                                                                      \
    GASNETI_AM_PICK(__VA_ARGS__, _many, _many, _many, _many, _many, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, \
                    2, 1, 0, _few, _few, _few)
#define GASNETI_AM_COUNT_4(...)                                                                                        \
    GASNETI_AM_PICK(__VA_ARGS__, _many, _many, _many, _many, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, \
                    _few, _few, _few, _few)
#define GASNETI_AM_COUNT_5(...)                                                                                       \
    GASNETI_AM_PICK(__VA_ARGS__, _many, _many, _many, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, _few, \
                    _few, _few, _few, _few)
#define GASNETI_AM_COUNT_6(...)                                                                                      \
    GASNETI_AM_PICK(__VA_ARGS__, _many, _many, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, _few, _few, \
                    _few, _few, _few, _few)
#define GASNETI_AM_COUNT_7(...)                                                                                     \
    GASNETI_AM_PICK(__VA_ARGS__, _many, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, _few, _few, _few, \
                    _few, _few, _few, _few)
#define GASNETI_AM_COUNT_8(...)                                                                                    \
    GASNETI_AM_PICK(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, _few, _few, _few, _few, \
                    _few, _few, _few, _few)

#define GASNETI_AM_PASTE_(name, count, suffix) name##count##suffix
#define GASNETI_AM_PASTE(name, count, suffix) GASNETI_AM_PASTE_(name, count, suffix)
#define GASNETI_AM_CALL(fixed, name, suffix, ...) \
    GASNETI_AM_PASTE(name, GASNETI_AM_COUNT_##fixed(__VA_ARGS__), suffix)(__VA_ARGS__)

#define gex_AM_RequestShort(...) GASNETI_AM_CALL(4, gex_AM_RequestShort, , __VA_ARGS__)
#define gex_AM_RequestMedium(...) GASNETI_AM_CALL(7, gex_AM_RequestMedium, , __VA_ARGS__)
#define gex_AM_RequestLong(...) GASNETI_AM_CALL(8, gex_AM_RequestLong, , __VA_ARGS__)
#define gex_AM_ReplyShort(...) GASNETI_AM_CALL(3, gex_AM_ReplyShort, , __VA_ARGS__)
#define gex_AM_ReplyMedium(...) GASNETI_AM_CALL(6, gex_AM_ReplyMedium, , __VA_ARGS__)
#define gex_AM_ReplyLong(...) GASNETI_AM_CALL(7, gex_AM_ReplyLong, , __VA_ARGS__)
#define gex_AM_CommitRequestMedium(...) GASNETI_AM_CALL(3, gex_AM_CommitRequestMedium, , __VA_ARGS__)
#define gex_AM_CommitReplyMedium(...) GASNETI_AM_CALL(3, gex_AM_CommitReplyMedium, , __VA_ARGS__)
#define gex_AM_CommitRequestLong(...) GASNETI_AM_CALL(4, gex_AM_CommitRequestLong, , __VA_ARGS__)
#define gex_AM_CommitReplyLong(...) GASNETI_AM_CALL(4, gex_AM_CommitReplyLong, , __VA_ARGS__)
#define gex_AM_CommitRequestMedium_v2(...) GASNETI_AM_CALL(4, gex_AM_CommitRequestMedium, _v2, __VA_ARGS__)
#define gex_AM_CommitReplyMedium_v2(...) GASNETI_AM_CALL(4, gex_AM_CommitReplyMedium, _v2, __VA_ARGS__)
#define gex_AM_CommitRequestLong_v2(...) GASNETI_AM_CALL(5, gex_AM_CommitRequestLong, _v2, __VA_ARGS__)
#define gex_AM_CommitReplyLong_v2(...) GASNETI_AM_CALL(5, gex_AM_CommitReplyLong, _v2, __VA_ARGS__)

#endif
