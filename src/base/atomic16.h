/*
 * atomic16: atomic load and compare-and-swap of 16 bytes.
 *
 * x86-64 has cmpxchg16b; gcc would hide it behind a call into libatomic, so it is written out here.
 * A plain aligned 16-byte load is atomic on every processor with AVX (Intel and AMD guarantee it in
 * their manuals); on older ones the load is a compare-and-swap of a value with itself, which is
 * slower and needs writable memory. Other architectures use the compiler's builtins.
 *
 * The thread sanitizer cannot see these instructions and is informed by annotations. Its own 16-byte
 * operation takes a lock, and is not atomic towards a thread that swaps one of the two words by
 * itself.
 *
 * Both are sequentially consistent or stronger than the acquire they promise.
 */
#ifndef RATION_BASE_ATOMIC16_H
#define RATION_BASE_ATOMIC16_H

#include <stdbool.h>
#include <stdint.h>

struct ration_pair {
    uint64_t words[2];
} __attribute__((aligned(16)));

#if defined(__SANITIZE_THREAD__)
#define RATION_UNDER_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RATION_UNDER_TSAN
#endif
#endif

/* Report an access to the thread sanitizer, which cannot see it. */
#if defined(RATION_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
static inline void ration_atomic16_annotate_swap(struct ration_pair *pair)
{
    (void)__atomic_load_n(&pair->words[0], __ATOMIC_RELAXED);
    (void)__atomic_load_n(&pair->words[1], __ATOMIC_RELAXED);
    __tsan_release(pair);
    __tsan_release(&pair->words[1]); /* other threads may swap this word by itself */
}
static inline void ration_atomic16_annotate_seen(const struct ration_pair *pair)
{
    (void)__atomic_load_n(&pair->words[0], __ATOMIC_RELAXED);
    (void)__atomic_load_n(&pair->words[1], __ATOMIC_ACQUIRE);
    __tsan_acquire((void *)(uintptr_t)pair);
}
#else
#define ration_atomic16_annotate_swap(pair) ((void)0) /* call before a swap */
#define ration_atomic16_annotate_seen(pair) ((void)0) /* call after a swap or a load */
#endif

#if defined(__x86_64__)

static inline bool ration_atomic16_swap(struct ration_pair *target, struct ration_pair *expected,
                                        struct ration_pair desired)
{
    bool swapped;

    ration_atomic16_annotate_swap(target);
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(swapped), "+m"(*target), "+a"(expected->words[0]),
                       "+d"(expected->words[1])
                     : "b"(desired.words[0]), "c"(desired.words[1])
                     : "memory");
    ration_atomic16_annotate_seen(target);
    return swapped;
}

/* Only on processors with AVX, where any aligned 16-byte load is atomic. */
static inline struct ration_pair ration_atomic16_load_avx(const struct ration_pair *source)
{
    struct ration_pair value;

    __asm__ volatile("movdqa %2, %%xmm0\n\t"
                     "movq %%xmm0, %0\n\t"
                     "punpckhqdq %%xmm0, %%xmm0\n\t"
                     "movq %%xmm0, %1"
                     : "=&r"(value.words[0]), "=r"(value.words[1])
                     : "m"(*source)
                     : "xmm0", "memory");
    ration_atomic16_annotate_seen(source);
    return value;
}

static inline struct ration_pair ration_atomic16_load(const struct ration_pair *source)
{
    struct ration_pair value = {{0, 0}};

    if (__builtin_expect(__builtin_cpu_supports("avx"), 1))
        return ration_atomic16_load_avx(source);
    ration_atomic16_swap((struct ration_pair *)(uintptr_t)source, &value, value);
    return value;
}

#else

__extension__ typedef unsigned __int128 ration_uint128;

static inline ration_uint128 ration_atomic16_join(struct ration_pair pair)
{
    return (ration_uint128)pair.words[1] << 64 | pair.words[0];
}

static inline struct ration_pair ration_atomic16_split(ration_uint128 value)
{
    return (struct ration_pair){{(uint64_t)value, (uint64_t)(value >> 64)}};
}

static inline bool ration_atomic16_swap(struct ration_pair *target, struct ration_pair *expected,
                                        struct ration_pair desired)
{
    ration_uint128 value = ration_atomic16_join(*expected);
    bool swapped = __atomic_compare_exchange_n((ration_uint128 *)(void *)target, &value,
                                               ration_atomic16_join(desired), false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

    *expected = ration_atomic16_split(value);
    return swapped;
}

static inline struct ration_pair ration_atomic16_load(const struct ration_pair *source)
{
    return ration_atomic16_split(
        __atomic_load_n((const ration_uint128 *)(const void *)source, __ATOMIC_ACQUIRE));
}

#endif

#endif
