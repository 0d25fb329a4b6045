/* A stand-in for NVIDIA's libnvidia-ml.so.1, for tests only: it answers what a text file says.
 *
 * The file is read again on every call, so that a test can change a card in mid-run. It is the one that
 * ANUBIS_NVML_STATE names as the library is loaded, or the one of the last `stand_in_state`: never asked of
 * the environment later, which another thread may be changing. An empty file is eight healthy H100; no file
 * is a machine without a driver. One line each:
 *
 *   count 8                             of the node
 *   gpu.power 640000                    of every card
 *   gpu3.power 120000                   of card 3 only, which wins
 *   gpu3.serial absent                  "not supported"
 *   gpu3.error.nvmlDeviceGetSerial 4    that call gives this error code; without "gpu3." for every card,
 *                                       and for calls that concern none
 *   gpu3.hang.nvmlDeviceGetSerial 60    that call waits so many seconds, or until the line is gone
 *   gpu3.lost 1                         every call gives NVML_ERROR_GPU_IS_LOST
 *   gpu3.field.186 712000               a field value (gpu3.field.164.5: of link 5)
 *   gpu3.processes 4711 4712            process ids on the card
 *   event 3 0x8 79                      an event of card 3: type (0x8 is an XID) and data; they queue up
 *
 * What other keys there are stands below, as the words in quotes beside their healthy values. Types, codes
 * and layouts are those of NVIDIA's public nvml.h as its Python bindings show them.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int card, slice; } device; /* slice -1: the whole card, not one of its MIG devices */

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7,
       NO_DRIVER = 9, TIMEOUT = 10, LOST = 15, OTHER_VERSION = 25 };
enum { CARDS = 64, SLICES = 7, LINE = 256, PATH_BYTES = 4096, FILE_BYTES = 1 << 16 };
#define ALL (-1) /* a call that concerns no single card */

static device cards[CARDS], slices[CARDS][SLICES];
static int opened;
static __thread char state[FILE_BYTES]; /* the file as this thread saw it when its call began */

/* --- the state file ------------------------------------------------------------------------------------- */

static char state_path[PATH_BYTES];

__attribute__((visibility("default"))) int stand_in_state(const char *path) { /* NULL: there is no file */
    return snprintf(state_path, sizeof state_path, "%s", path ? path : "") < PATH_BYTES ? OK : TOO_SMALL;
}

__attribute__((constructor)) static void loaded(void) { stand_in_state(getenv("ANUBIS_NVML_STATE")); }

static int read_state(void) {
    FILE *file = *state_path ? fopen(state_path, "r") : NULL;
    state[file ? fread(state, 1, sizeof state - 1, file) : 0] = 0;
    if (file) fclose(file);
    return file != NULL;
}

static int line_of(const char *key, char *value) { /* the last line of a key counts */
    size_t length = strlen(key);
    int found = 0;
    for (const char *line = state; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (!strncmp(line, key, length) && line[length] == ' ') {
            int width = (int)strcspn(line + length + 1, "\n");
            snprintf(value, LINE, "%.*s", width, line + length + 1);
            found = 1;
        }
    return found;
}

static int text_of(int card, const char *key, char *value) {
    char name[LINE];
    snprintf(name, LINE, "gpu%d.%s", card, key);
    if (card != ALL && line_of(name, value)) return 1;
    snprintf(name, LINE, "gpu.%s", key);
    return (card != ALL && line_of(name, value)) || line_of(key, value);
}

static int number(int card, const char *key, double healthy, double *found) {
    char value[LINE];
    *found = healthy;
    if (!text_of(card, key, value)) return OK;
    if (!strcmp(value, "absent")) return UNSUPPORTED;
    *found = value[0] == '0' && value[1] == 'x' ? (double)strtoull(value, NULL, 16) : strtod(value, NULL);
    return OK;
}

static double value_of(int card, const char *key, double healthy) {
    double found;
    return number(card, key, healthy, &found) == OK ? found : healthy;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); }

/* What every call does first: the file, initialised?, a hang, a lost card, an error. */
static int enter(int card, const char *call) {
    char hang[LINE], fails[LINE];
    double found, began = seconds();
    if (!read_state()) return NO_DRIVER;
    snprintf(hang, LINE, "hang.%s", call);
    while (value_of(card, hang, 0) > seconds() - began) {
        wait_a_little();
        read_state();
    }
    if (!opened && strncmp(call, "nvmlInit", 8)) return UNINITIALIZED;
    if (card != ALL && value_of(card, "lost", 0)) return LOST;
    snprintf(fails, LINE, "error.%s", call);
    number(card, fails, 0, &found);
    return (int)found;
}

#define ENTER(card) do { int code = enter(card, __func__); if (code) return code; } while (0)
#define EXPORT __attribute__((visibility("default")))

static char *formatted(char *into, const char *form, int a, int b) {
    snprintf(into, LINE, form, a, b);
    return into;
}
#define KEY(form, a, b) formatted((char[LINE]){0}, form, a, b)

static int give(char *into, u32 size, int card, const char *key, const char *healthy) {
    char value[LINE];
    if (!text_of(card, key, value)) snprintf(value, LINE, "%s", healthy);
    if (!strcmp(value, "absent")) return UNSUPPORTED;
    if (strlen(value) >= size) return TOO_SMALL;
    strcpy(into, value);
    return OK;
}
