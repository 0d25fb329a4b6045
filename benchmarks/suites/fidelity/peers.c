#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double *a, *b, *c;
static size_t length;

/* Make three arrays, each page touched by the thread that will use it. */
void triad_make(size_t n) {
    length = n;
    a = aligned_alloc(64, n * sizeof *a), b = aligned_alloc(64, n * sizeof *b), c = aligned_alloc(64, n * sizeof *c);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) a[i] = 1, b[i] = 2, c[i] = 0;
}

/* Seconds of so many passes c = a + 3 b. */
double triad(int passes, int threads) {
    omp_set_num_threads(threads);
    double begin = now();
    for (int pass = 0; pass < passes; pass++) {
        double *restrict x = a, *restrict y = b, *restrict z = c;
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < length; i++) z[i] = x[i] + 3 * y[i];
    }
    return now() - begin;
}

/* A random cycle through an array of pointers, one per line of 64 bytes, as lat_mem_rd's random mode has it. */
static void **chain, **place;

void chase_make(void *memory, size_t bytes, uint64_t seed) {
    size_t lines = bytes / 64;
    size_t *order = malloc(lines * sizeof *order);
    for (size_t i = 0; i < lines; i++) order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t j = (seed >> 33) % (i + 1), kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
    chain = memory;
    for (size_t i = 0; i < lines; i++) chain[8 * order[i]] = &chain[8 * order[(i + 1) % lines]];
    place = &chain[8 * order[0]];
    free(order);
}

/* Nanoseconds of a load, over so many. */
double chase(size_t loads) {
    void **here = place;
    double begin = now();
    for (size_t i = 0; i < loads; i += 8) {
        here = *here, here = *here, here = *here, here = *here;
        here = *here, here = *here, here = *here, here = *here;
    }
    double took = now() - begin;
    place = here; /* kept: the loads are needed */
    return 1e9 * took / loads;
}
