/* --- calls that only read one value ---------------------------------------------------------------------- */

#define TEXT(name, key, ...) EXPORT int name(device *of, char *into, u32 size) { \
    char healthy[LINE]; ENTER(of->card); snprintf(healthy, LINE, __VA_ARGS__); \
    return give(into, size, of->card, key, healthy); }
#define NUMBER(name, type, key, healthy) EXPORT int name(device *of, type *into) { \
    double found; ENTER(of->card); int code = number(of->card, key, healthy, &found); \
    *into = (type)found; return code; }
#define BY_KIND(name, type, key, healthy) EXPORT int name(device *of, u32 kind, type *into) { \
    double found; ENTER(of->card); int code = number(of->card, KEY(key, (int)kind, 0), healthy, &found); \
    *into = (type)found; return code; }

static const double clocks[] = {1980, 1980, 2619, 1545}; /* MHz: graphics, SM, memory, video */
#define CLOCK (kind < 4 ? clocks[kind] : 0)

TEXT(nvmlDeviceGetName, "name", "NVIDIA H100 80GB HBM3")
TEXT(nvmlDeviceGetSerial, "serial", "16500000%02d", of->card)
TEXT(nvmlDeviceGetBoardPartNumber, "part", "692-2G520-0200-000")
TEXT(nvmlDeviceGetVbiosVersion, "vbios", "96.00.89.00.01")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom", "G520.0200.00.05")
NUMBER(nvmlDeviceGetIndex, u32, "index", of->card)
NUMBER(nvmlDeviceGetMinorNumber, u32, "minor", of->card)
NUMBER(nvmlDeviceGetArchitecture, u32, "architecture", 9)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, u32, "pcie.width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, u32, "pcie.width.max", 16)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, u32, "pcie.generation", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, u32, "pcie.generation.max", 5)
NUMBER(nvmlDeviceGetPcieReplayCounter, u32, "pcie.replays", 0)
NUMBER(nvmlDeviceGetPowerUsage, u32, "power", 120000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, "power.limit", 700000)
NUMBER(nvmlDeviceGetPowerManagementLimit, u32, "power.limit", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, u32, "power.default", 700000)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, "energy", seconds() * value_of(of->card, "power", 120000))
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, "reasons", 0)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "reasons", 0)
NUMBER(nvmlDeviceGetSupportedClocksEventReasons, u64, "reasons.supported", 0x1ff)
NUMBER(nvmlDeviceGetPerformanceState, u32, "pstate", 0)
NUMBER(nvmlDeviceGetComputeMode, u32, "compute.mode", 0)
NUMBER(nvmlDeviceGetPersistenceMode, u32, "persistence", 1)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, u32, "retired.pending", 0)
NUMBER(nvmlDeviceGetSupportedEventTypes, u64, "events", 0xfe1f)
NUMBER(nvmlDeviceGetNumaNodeId, u32, "numa", of->card < 4 ? 0 : 1)
NUMBER(nvmlDeviceGetGpuInstanceId, u32, "mig.instance", of->slice + 1)
BY_KIND(nvmlDeviceGetClockInfo, u32, "clock.%d", CLOCK)
BY_KIND(nvmlDeviceGetMaxClockInfo, u32, "clock.max.%d", CLOCK)
BY_KIND(nvmlDeviceGetApplicationsClock, u32, "clock.application.%d", CLOCK)
BY_KIND(nvmlDeviceGetDefaultApplicationsClock, u32, "clock.default.%d", CLOCK)
BY_KIND(nvmlDeviceGetTemperature, u32, "temperature", 45 + 0 * kind)
BY_KIND(nvmlDeviceGetTemperatureThreshold, u32, "temperature.threshold.%d", kind == 0 ? 92 : 87)

/* --- library, node and handles --------------------------------------------------------------------------- */

EXPORT int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    ENTER(ALL);
    for (int card = 0; card < CARDS; card++) {
        cards[card] = (device){card, -1};
        for (int slice = 0; slice < SLICES; slice++) slices[card][slice] = (device){card, slice};
    }
    opened++;
    return OK;
}
EXPORT int nvmlShutdown(void) { if (opened) opened--; return OK; }
EXPORT const char *nvmlErrorString(int code) { (void)code; return "Error of the stand-in"; }
EXPORT int nvmlSystemGetDriverVersion(char *into, u32 size) {
    ENTER(ALL);
    return give(into, size, ALL, "driver", "580.65.06");
}
EXPORT int nvmlSystemGetNVMLVersion(char *into, u32 size) {
    ENTER(ALL);
    return give(into, size, ALL, "nvml", "13.580.65.06");
}
EXPORT int nvmlSystemGetCudaDriverVersion(int *into) {
    ENTER(ALL);
    *into = (int)value_of(ALL, "cuda", 13000);
    return OK;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *into) { return nvmlSystemGetCudaDriverVersion(into); }
static int count(void) { return (int)value_of(ALL, "count", 8); }
EXPORT int nvmlDeviceGetCount_v2(u32 *into) { ENTER(ALL); *into = (u32)count(); return OK; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(u32 index, device **into) {
    ENTER((int)index);
    if (index >= (u32)count()) return INVALID;
    *into = &cards[index];
    return OK;
}

static const int buses[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf}; /* of a common eight-card board */
static int uuid(const device *of, char *into, u32 size) {
    if (of->slice >= 0)
        return give(into, size, of->card, KEY("mig.%d.uuid", of->slice, 0),
                    KEY("MIG-5a000000-0000-0000-%04d-0000000000%02d", of->slice, of->card));
    return give(into, size, of->card, "uuid", KEY("GPU-5a000000-0000-0000-0000-0000000000%02d", of->card, 0));
}
static int address(int card, char *into, u32 size) {
    return give(into, size, card, "pci", KEY("00000000:%02X:00.0", card < 8 ? buses[card] : card + 1, 0));
}
EXPORT int nvmlDeviceGetUUID(device *of, char *into, u32 size) { ENTER(of->card); return uuid(of, into, size); }

typedef struct { char legacy[16]; u32 domain, bus, slot, id, subsystem; char address[32]; } pci_info;
EXPORT int nvmlDeviceGetPciInfo_v3(device *of, pci_info *into) {
    ENTER(of->card);
    memset(into, 0, sizeof *into);
    into->id = 0x233010de;
    int code = address(of->card, into->address, sizeof into->address);
    sscanf(into->address, "%x:%x:%x", &into->domain, &into->bus, &into->slot);
    snprintf(into->legacy, sizeof into->legacy, "%04X:%02X:%02X.0", into->domain & 0xffff,
             into->bus & 0xff, into->slot & 0x1f);
    return code;
}
static int by_text(const char *wanted, device **into, int pci) {
    char text[LINE];
    for (int card = 0; card < count(); card++)
        for (int slice = -1; slice < (pci ? 0 : SLICES); slice++) {
            device *of = slice < 0 ? &cards[card] : &slices[card][slice];
            if ((pci ? address(card, text, LINE) : uuid(of, text, LINE)) == OK && !strcasecmp(text, wanted)) {
                *into = of;
                return OK;
            }
        }
    return NOT_FOUND;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char *wanted, device **into) {
    ENTER(ALL);
    return by_text(wanted, into, 0);
}
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, device **into) {
    ENTER(ALL);
    return by_text(wanted, into, 1);
}

/* --- memory, partitions, processes ------------------------------------------------------------------------ */

EXPORT int nvmlDeviceGetMemoryInfo(device *of, u64 *into) { /* total, free, used */
    double total;
    ENTER(of->card);
    int code = number(of->card, "memory", 85520809984.0, &total);
    double used = value_of(of->card, "memory.used", 500e6);
    into[0] = (u64)total / (of->slice < 0 ? 1 : SLICES + 1);
    into[2] = (u64)used;
    into[1] = into[0] > into[2] ? into[0] - into[2] : 0;
    return code;
}
EXPORT int nvmlDeviceGetMigMode(device *of, u32 *now, u32 *pending) {
    double found;
    ENTER(of->card);
    int code = number(of->card, "mig", 0, &found);
    *now = (u32)found;
    *pending = (u32)value_of(of->card, "mig.pending", found);
    return code;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(device *of, u32 *into) {
    ENTER(of->card);
    *into = value_of(of->card, "mig", 0) ? SLICES : 0;
    return OK;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device *of, u32 index, device **into) {
    ENTER(of->card);
    if (index >= SLICES || index >= (u32)value_of(of->card, "mig.devices", 0)) return NOT_FOUND;
    *into = &slices[of->card][index];
    return OK;
}
EXPORT int nvmlDeviceIsMigDeviceHandle(device *of, u32 *into) { *into = of->slice >= 0; return OK; }
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *of, device **into) {
    ENTER(of->card);
    *into = &cards[of->card];
    return OK;
}

typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process;
static int processes(int card, const char *key, u32 *room, process *into) {
    char value[LINE] = "", *rest = value;
    process found[LINE];
    u32 count = 0;
    text_of(card, key, value);
    for (char *end; count < LINE; rest = end, count++) {
        found[count] = (process){(u32)strtoul(rest, &end, 10), 1 << 20, ~0u, ~0u};
        if (end == rest) break;
    }
    u32 fits = *room;
    *room = count;
    if (count > fits) return TOO_SMALL;
    if (count) memcpy(into, found, count * sizeof *found);
    return OK;
}
#define PROCESSES(name, key) EXPORT int name(device *of, u32 *room, process *into) { \
    ENTER(of->card); return processes(of->card, key, room, into); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "processes.graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "processes.mps")

EXPORT int nvmlDeviceGetCpuAffinity(device *of, u32 size, unsigned long *into) {
    ENTER(of->card); /* half of the CPUs of a node with 128 each, in words of 64 */
    for (u32 word = 0; word < size; word++)
        into[word] = (unsigned long)value_of(of->card, KEY("cpus.%d", (int)word, 0),
                                             word == (of->card < 4 ? 0u : 1u) ? 1.8446744073709550e19 : 0);
    return OK;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(device *of, int *major, int *minor) {
    char value[LINE] = "9.0";
    ENTER(of->card);
    text_of(of->card, "capability", value);
    return sscanf(value, "%d.%d", major, minor) == 2 ? OK : UNSUPPORTED;
}
EXPORT int nvmlDeviceGetUtilizationRates(device *of, u32 *into) {
    double found;
    ENTER(of->card);
    int code = number(of->card, "utilisation", 0, &found);
    into[0] = (u32)found;
    into[1] = (u32)value_of(of->card, "utilisation.memory", 0);
    return code;
}
EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(device *of, u32 *least, u32 *most) {
    ENTER(of->card);
    *least = (u32)value_of(of->card, "power.least", 200000);
    *most = (u32)value_of(of->card, "power.most", 700000);
    return OK;
}
EXPORT int nvmlDeviceGetViolationStatus(device *of, u32 policy, u64 *into) {
    double found;
    ENTER(of->card);
    int code = number(of->card, KEY("violation.%d", (int)policy, 0), 0, &found); /* ns */
    into[0] = (u64)(seconds() * 1e6);
    into[1] = (u64)found;
    return code;
}
