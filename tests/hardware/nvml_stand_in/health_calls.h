/* What says that a card is sick: memory errors, remapped rows, NVLinks, fabric, recovery; field values and
 * events. */

static const char *const kinds[] = {"corrected", "uncorrected"}, *const spans[] = {"volatile", "aggregate"};
enum { PLACES = 8 }; /* L1, L2, device memory, registers, texture, shared texture, CBU, SRAM */

/* "ecc.uncorrected.volatile" is the sum, "ecc.uncorrected.volatile.2" device memory's part of it. */
static int errors(int card, u32 kind, u32 span, int place, double *found) {
    char key[LINE];
    double one, sum = 0;
    if (kind > 1 || span > 1) return INVALID;
    for (int at = 0; at < PLACES; at++) {
        snprintf(key, LINE, "ecc.%s.%s.%d", kinds[kind], spans[span], at);
        number(card, key, 0, &one);
        sum += place < 0 || place == at ? one : 0;
    }
    *found = sum;
    snprintf(key, LINE, "ecc.%s.%s", kinds[kind], spans[span]);
    return place < 0 ? number(card, key, sum, found) : OK;
}
EXPORT int nvmlDeviceGetTotalEccErrors(device *of, u32 kind, u32 span, u64 *into) {
    double found = 0;
    ENTER(of->card);
    int code = errors(of->card, kind, span, -1, &found);
    *into = (u64)found;
    return code;
}
EXPORT int nvmlDeviceGetMemoryErrorCounter(device *of, u32 kind, u32 span, u32 place, u64 *into) {
    double found = 0;
    ENTER(of->card);
    int code = errors(of->card, kind, span, (int)place, &found);
    *into = (u64)found;
    return code;
}
EXPORT int nvmlDeviceGetEccMode(device *of, u32 *now, u32 *pending) {
    double found;
    ENTER(of->card);
    int code = number(of->card, "ecc", 1, &found);
    *now = *pending = (u32)found;
    return code;
}

typedef struct { u32 version; u64 agg_parity, agg_secded, agg_corrected, vol_parity, vol_secded,
    vol_corrected, l2, sm, pcie, mcu, other; u32 exceeded; } sram_status;
EXPORT int nvmlDeviceGetSramEccErrorStatus(device *of, sram_status *into) {
    double found;
    ENTER(of->card);
    int code = number(of->card, "sram.threshold", 0, &found);
    into->exceeded = (u32)found;
    into->agg_secded = (u64)value_of(of->card, "sram.uncorrected.aggregate", 0);
    into->vol_secded = (u64)value_of(of->card, "sram.uncorrected.volatile", 0);
    return code;
}
EXPORT int nvmlDeviceGetRemappedRows(device *of, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    double found;
    ENTER(of->card);
    int code = number(of->card, "remapped.corrected", 0, &found);
    *corrected = (u32)found;
    *uncorrected = (u32)value_of(of->card, "remapped.uncorrected", 0);
    *pending = (u32)value_of(of->card, "remapped.pending", 0);
    *failed = (u32)value_of(of->card, "remapped.failed", 0);
    return code;
}
EXPORT int nvmlDeviceGetRowRemapperHistogram(device *of, u32 *into) { /* banks by spares that are left */
    static const char *const keys[] = {"max", "high", "partial", "low", "none"};
    double found;
    ENTER(of->card);
    int code = number(of->card, "histogram", 0, &found);
    for (int level = 0; level < 5; level++) {
        char key[LINE];
        snprintf(key, LINE, "histogram.%s", keys[level]);
        into[level] = (u32)value_of(of->card, key, level ? 0 : 640);
    }
    return code;
}
EXPORT int nvmlDeviceGetRetiredPages(device *of, u32 cause, u32 *room, u64 *into) {
    double found;
    ENTER(of->card);
    int code = number(of->card, KEY("retired.%d", (int)cause, 0), 0, &found);
    u32 fits = *room, pages = *room = (u32)found;
    if (code) return code;
    if (pages > fits) return TOO_SMALL;
    for (u32 page = 0; page < pages; page++) into[page] = 4096ull * (page + 1);
    return OK;
}

/* --- NVLink and fabric --------------------------------------------------------------------------------- */

static int has_link(int card, u32 link) { return link < (u32)value_of(card, "nvlinks", 18); }
EXPORT int nvmlDeviceGetNvLinkState(device *of, u32 link, u32 *into) {
    ENTER(of->card);
    if (!has_link(of->card, link)) return value_of(of->card, "nvlinks", 18) ? INVALID : UNSUPPORTED;
    *into = (u32)value_of(of->card, KEY("nvlink.%d.state", (int)link, 0), 1);
    return OK;
}
EXPORT int nvmlDeviceGetNvLinkVersion(device *of, u32 link, u32 *into) {
    ENTER(of->card);
    *into = (u32)value_of(of->card, "nvlink.version", 4);
    return has_link(of->card, link) ? OK : INVALID;
}
EXPORT int nvmlDeviceGetNvLinkErrorCounter(device *of, u32 link, u32 kind, u64 *into) {
    double found;
    ENTER(of->card);
    int code = number(of->card, KEY("nvlink.%d.error.%d", (int)link, (int)kind), 0, &found);
    *into = (u64)found;
    return has_link(of->card, link) ? code : INVALID;
}

/* Two bits each: bandwidth not degraded, no route recovery, no unhealthy route, no time-out recovery; then
 * four bits: configured rightly. */
enum { HEALTHY = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8 };
typedef struct { u32 version; unsigned char cluster[16]; int status; u32 clique; unsigned char state; u32 mask;
    unsigned char summary; } fabric;
EXPORT int nvmlDeviceGetGpuFabricInfoV(device *of, fabric *into) {
    double found;
    ENTER(of->card);
    u32 version = into->version >> 24;
    if (version < 2 || version > (u32)value_of(of->card, "fabric.version", 3)) return OTHER_VERSION;
    int code = number(of->card, "fabric.state", 3, &found); /* 3: completed */
    into->state = (unsigned char)found;
    into->status = (int)value_of(of->card, "fabric.status", 0);
    into->mask = (u32)value_of(of->card, "fabric.health", HEALTHY);
    if (version > 2) into->summary = (unsigned char)value_of(of->card, "fabric.summary", 1);
    return code;
}

/* --- field values ---------------------------------------------------------------------------------------- */

static const struct { u32 field; const char *key; double healthy; } fields[] = {
    {1, "ecc", 1}, {3, "ecc.corrected.volatile", 0}, {4, "ecc.uncorrected.volatile", 0},
    {5, "ecc.corrected.aggregate", 0}, {6, "ecc.uncorrected.aggregate", 0},
    {74, "violation.0", 0}, {75, "violation.1", 0}, {76, "violation.2", 0}, {77, "violation.3", 0},
    {78, "violation.4", 0}, {79, "violation.5", 0}, {82, "temperature.memory", 50}, {91, "nvlinks", 18},
    {94, "pcie.replays", 0}, {142, "remapped.corrected", 0}, {143, "remapped.uncorrected", 0},
    {144, "remapped.pending", 0}, {145, "remapped.failed", 0}, {161, "nvlink.%d.error.0", 0},
    {162, "nvlink.%d.error.1", 0}, {163, "nvlink.%d.error.2", 0}, {164, "nvlink.%d.speed", 26562},
    {165, "nvlink.%d.state", 1}, {185, "power", 120000}, {187, "power.least", 200000},
    {188, "power.most", 700000}, {189, "power.default", 700000}, {190, "power.limit", 700000},
    {230, "recovery", 0},
};
typedef struct { u32 field, scope; int64_t when, latency; u32 type; int code; union { u64 whole; } value; }
    field_value;
static int field(int card, u32 id, u32 scope, double *found) {
    char value[LINE];
    const char *exact = KEY("field.%d.%d", (int)id, (int)scope), *plain = KEY("field.%d", (int)id, 0);
    if (text_of(card, exact, value)) return number(card, exact, 0, found);
    if (text_of(card, plain, value)) return number(card, plain, 0, found);
    if (id == 186) return number(card, "power.instant", value_of(card, "power", 120000), found);
    if (id == 83 || id == 191)
        return number(card, "energy", seconds() * value_of(card, "power", 120000), found);
    for (size_t at = 0; at < sizeof fields / sizeof *fields; at++)
        if (fields[at].field == id) {
            int of_link = strchr(fields[at].key, '%') != NULL;
            if (of_link && !has_link(card, scope)) return INVALID;
            return number(card, of_link ? KEY(fields[at].key, (int)scope, 0) : fields[at].key,
                          fields[at].healthy, found);
        }
    return UNSUPPORTED;
}
EXPORT int nvmlDeviceGetFieldValues(device *of, int count, field_value *values) {
    ENTER(of->card);
    for (int at = 0; at < count; at++) {
        double found = 0;
        values[at].code = field(of->card, values[at].field, values[at].scope, &found);
        values[at].type = 3; /* unsigned long long */
        values[at].when = (int64_t)(seconds() * 1e6);
        values[at].value.whole = (u64)found;
    }
    return OK;
}

/* --- events ------------------------------------------------------------------------------------------------- */

typedef struct { u64 types[CARDS]; int told; } event_set;
typedef struct { device *of; u64 type, data; u32 gpu_instance, compute_instance; } event;

/* Finds the `wanted`-th event of the file; returns how many there are up to it. */
static int event_at(int wanted, int *card, u64 *type, u64 *data) {
    int seen = 0;
    for (const char *line = state; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (sscanf(line, "event %d %lli %lli", card, (long long *)type, (long long *)data) == 3
            && ++seen == wanted) break;
    return seen;
}
EXPORT int nvmlEventSetCreate(event_set **into) {
    int card;
    u64 type, data;
    ENTER(ALL);
    *into = calloc(1, sizeof **into);
    (*into)->told = event_at(-1, &card, &type, &data); /* what happened before is not told */
    return OK;
}
EXPORT int nvmlDeviceRegisterEvents(device *of, u64 types, event_set *set) {
    ENTER(of->card);
    set->types[of->card] |= types;
    return OK;
}
EXPORT int nvmlEventSetWait_v2(event_set *set, event *into, u32 milliseconds) {
    double end = seconds() + milliseconds / 1e3;
    int card = 0;
    u64 type = 0, data = 0;
    for (;;) {
        ENTER(ALL);
        while (event_at(set->told + 1, &card, &type, &data) > set->told) {
            set->told++;
            if (card >= 0 && card < CARDS && set->types[card] & type) {
                *into = (event){&cards[card], type, data, ~0u, ~0u};
                return OK;
            }
        }
        if (seconds() >= end) return TIMEOUT;
        wait_a_little();
    }
}
EXPORT int nvmlEventSetFree(event_set *set) { free(set); return OK; }
