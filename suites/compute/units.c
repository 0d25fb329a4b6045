/* Vector and integer units under load: generators of whole numbers that any CPU computes exactly alike.

   Every lane is x -> a x + b modulo a power of two, one to one, so that an error never dies out. In floating
   point all steps are exact, whether products and sums are fused or not. A block of steps begins with the
   same numbers each time and ends in a checksum that is known. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <time.h>

/* Each function is compiled for several widths of vectors, and the CPU's widest is taken when it is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef WIDEST
#define WIDEST
#endif

#define CHAINS 8    /* vectors at once: a unit starts two a cycle and takes four cycles for one */
#define BYTES 64    /* of a vector: the widest registers; narrower ones hold it in parts */

typedef double f64 __attribute__((vector_size(BYTES)));
typedef float f32 __attribute__((vector_size(BYTES)));
typedef uint32_t u32 __attribute__((vector_size(BYTES)));

/* Add the lanes up so that value and place of each matters; `fault` is turned round in the first lane. */
#define STATE(type, vector) \
    vector x[CHAINS]; \
    for (int c = 0; c < CHAINS; c++) \
        for (unsigned l = 0; l < BYTES / sizeof(type); l++) \
            x[c][l] = (type)(c * (BYTES / sizeof(type)) + l + 1);
#define FAULT(type) if (fault) x[0][0] = (type)((int64_t)x[0][0] ^ (int64_t)fault);
#define STEPS(STEP, type) \
    for (int half = 0; half < 2; half++) { \
        for (uint64_t s = half * (steps / 2); s < (half ? steps : steps / 2); s++) { STEP } \
        if (half == 0) { FAULT(type) } \
    }
#define EACH_CHAIN _Pragma("GCC unroll 8") for (int c = 0; c < CHAINS; c++)
#define CHECKSUM(type) \
    uint64_t sum = 0; \
    for (int c = 0; c < CHAINS; c++) \
        for (unsigned l = 0; l < BYTES / sizeof(type); l++) \
            sum = sum * 6364136223846793005u + (uint64_t)(int64_t)x[c][l]; \
    return sum;

/* 26 bits times 26 bits and 24 more fit into the 53 of a number in double precision. Adding and subtracting
   1.5 times 2^52 leaves the nearest whole number. */
WIDEST uint64_t unit_float64(uint64_t steps, uint64_t fault)
{
    STATE(double, f64)
    STEPS(
        EACH_CHAIN {
            f64 y = x[c] * 50331653.0 + 12345679.0;
            f64 whole = (y * 0x1p-26 + 0x1.8p52) - 0x1.8p52;
            x[c] = y - whole * 0x1p26;
        },
        double)
    CHECKSUM(double)
}

/* 12 bits times 11 bits and 11 more fit into the 24 of a number in single precision. */
WIDEST uint64_t unit_float32(uint64_t steps, uint64_t fault)
{
    STATE(float, f32)
    STEPS(
        EACH_CHAIN {
            f32 y = x[c] * 1597.0f + 1237.0f;
            f32 whole = (y * 0x1p-12f + 0x1.8p23f) - 0x1.8p23f;
            x[c] = y - whole * 0x1p12f;
        },
        float)
    CHECKSUM(float)
}

WIDEST uint64_t unit_int32(uint64_t steps, uint64_t fault)
{
    STATE(uint32_t, u32)
    STEPS(
        EACH_CHAIN {
            x[c] ^= x[c] >> 15;
            x[c] = x[c] * 739982445u + 1013904223u;
        },
        uint32_t)
    CHECKSUM(uint32_t)
}

/* One number at a time: the units for addresses and loops. */
uint64_t unit_int64(uint64_t steps, uint64_t fault)
{
    uint64_t x[CHAINS];
    for (int c = 0; c < CHAINS; c++) x[c] = (uint64_t)c + 1;
    for (int half = 0; half < 2; half++) {
        for (uint64_t s = half * (steps / 2); s < (half ? steps : steps / 2); s++)
            EACH_CHAIN {
                x[c] ^= x[c] >> 29;
                x[c] = x[c] * 6364136223846793005u + 1442695040888963407u;
            }
        if (half == 0) x[0] ^= fault;
    }
    uint64_t sum = 0;
    for (int c = 0; c < CHAINS; c++) sum = sum * 6364136223846793005u + x[c];
    return sum;
}

#define PAIRS 2048  /* products of one sum, those of eight steps: adding up its lanes is then a small part */
#define SHIFTS 16
#define SHIFT 32    /* numbers of a vector, so that no load takes parts of two lines of the cache */
#define PRODUCT(i) ((uint32_t)((int32_t)from[i] * b[i]))

/* Products of 16 bits, two of them added in one go and summed in 32 bits modulo 2^32. A plain loop, for which
   compilers take vpdpwssd, vpmaddwd or smlal; another shift each time, or one sum would be computed. In four
   parts, as one vector waits for itself for several cycles. */
static inline __attribute__((always_inline)) uint64_t products(uint64_t steps, uint64_t fault)
{
    int16_t a[PAIRS + SHIFTS * SHIFT] __attribute__((aligned(64))), b[PAIRS] __attribute__((aligned(64)));
    uint32_t random = 1, sum = 0;
    for (int i = 0; i < PAIRS + SHIFTS * SHIFT; i++) {
        random = random * 1664525u + 1013904223u;
        a[i] = (int16_t)(random >> 16);
        if (i < PAIRS) b[i] = (int16_t)(random >> 8);
    }
    for (int half = 0; half < 2; half++) {
        for (uint64_t s = half * (steps / 16); s < (half ? steps / 8 : steps / 16); s++) {
            const int16_t *from = a + s % SHIFTS * SHIFT;
            uint32_t p = 0, q = 0, r = 0, t = 0;
            for (int i = 0; i < PAIRS / 4; i++) {
                p += PRODUCT(i);
                q += PRODUCT(i + PAIRS / 4);
                r += PRODUCT(i + PAIRS / 4 * 2);
                t += PRODUCT(i + PAIRS / 4 * 3);
            }
            sum = sum * 1664525u + p + q + r + t;  /* one to one: what was wrong in it stays */
        }
        if (half == 0) sum ^= (uint32_t)fault;
    }
    return sum;
}

/* At -O2 it depends on the version of GCC whether such a loop uses vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#define VECTORS __attribute__((optimize("O3")))
#else
#define VECTORS
#endif

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 8)
VECTORS __attribute__((target("avx512bw,avx512vl,avx512vnni")))
static uint64_t products_vnni(uint64_t steps, uint64_t fault) { return products(steps, fault); }
#define VNNI __builtin_cpu_supports("avx512vnni")
#else
#define VNNI 0
#define products_vnni products
#endif

WIDEST VECTORS static uint64_t products_any(uint64_t steps, uint64_t fault) { return products(steps, fault); }

uint64_t unit_int16(uint64_t steps, uint64_t fault)
{
    return VNNI ? products_vnni(steps, fault) : products_any(steps, fault);
}

typedef uint64_t unit(uint64_t steps, uint64_t fault);
static unit *const UNITS[] = { unit_float64, unit_float32, unit_int32, unit_int64, unit_int16 };

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t when)
{
    struct timespec t = { (time_t)(when / 1000000000u), (long)(when % 1000000000u) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) { }
}

/* Load this CPU at the beginning of every period, all units in turns, and rest until the next, after the last
   one, too.

   plan:   begin, nanoseconds of load, nanoseconds of a period, periods, most turns of all units, steps of a
           block, periods whose results are told together
   expected: the checksum of a block of each unit; `fault` goes into the first block of all
   result: for each so many periods turns done, nanoseconds of load, wrong blocks */
void units_load(const uint64_t *plan, const uint64_t *which, uint64_t count, const uint64_t *expected,
                uint64_t fault, uint64_t *result)
{
    uint64_t turns = 0;
    for (uint64_t p = 0; p < plan[3] && turns < plan[4]; p++) {
        sleep_until(plan[0] + p * plan[2]);
        uint64_t begin = now(), end = begin, before = turns, *told = result + 3 * (p / plan[6]);
        do {
            for (uint64_t u = 0; u < count; u++) {
                told[2] += UNITS[which[u]](plan[5], fault) != expected[u];
                fault = 0;
            }
            turns++;
            end = now();
        } while (end < plan[0] + p * plan[2] + plan[1] && turns < plan[4]);
        told[0] += turns - before;
        told[1] += end - begin;
    }
    if (turns < plan[4]) sleep_until(plan[0] + plan[3] * plan[2]);
}
