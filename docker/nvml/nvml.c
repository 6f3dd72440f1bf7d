/*
 * A stand-in for libnvidia-ml.so.1: it answers the NVML calls that slurm-failover makes from a
 * text file, so that tests can make a GPU of any kind fail in any way, through the real bindings.
 *
 * The file is $NVML_STAND_IN, or /etc/nvml-stand-in.conf, and is read anew by every nvmlInit.
 * One "key value" per line; "#" starts a comment; a later line wins. What a healthy GPU would
 * answer is the default, so a healthy GPU needs only its identity.
 *
 *   init 18                         nvmlInit answers error 18 (library/driver mismatch)
 *   count 2                         GPUs that NVML lists
 *   gpu0.pci 00000000:3B:00.0       identity: also .uuid .minor .name
 *   gpu0.ecc 3                      a reading; the keys are those given to number() below
 *   gpu0.error 15                   every call on this GPU answers 15 (GPU is lost)
 *   gpu0.error.nvmlDeviceGetUUID 3  only this call does; 0 exempts it from gpu0.error
 *   error.nvmlDeviceGetCount_v2 999 the call that counts the GPUs answers 999
 *   hang.nvmlInitWithFlags 1        this call never returns; also gpu0.hang.<call>
 *   gpu0.mig 1, gpu0.mig0.uuid …    MIG mode and instances: also .gi and .ci
 *   gpu0.links 18                   NVLinks; gpu0.link3 0 makes link 3 inactive
 *   gpu0.field.230 2                a field value; gpu0.field.162.3 one of link 3
 *   event1 0 8 79                   the first event: on GPU 0 of type 8 (Xid), data 79; then event2
 *   gpu0.event_types 8              the events that a GPU has
 *   wait 15                         nvmlEventSetWait answers 15 (GPU is lost)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, UNKNOWN_VERSION = 25 };
enum { MAX_GPUS = 64, MAX_MIG = 16, FIELD_ULL = 3 };

/* A handle is a small number in a pointer's clothes: GPU + 1, and 256 * (instance + 1) for MIG. */
typedef struct handle *nvmlDevice;

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} PciInfo;

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long reference_us, violation_ns; } ViolationTime;

typedef struct {
    unsigned version;
    unsigned long long agg_parity, agg_secded, agg_cor, vol_parity, vol_secded, vol_cor;
    unsigned long long l2, sm, pcie, mcu, other;
    unsigned threshold;
} SramStatus;

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health;
} FabricV2;

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, result;
    union { double d; unsigned long long u; } value;
} FieldValue;

typedef struct {
    nvmlDevice device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} EventData;

static char answers[1 << 18];

static const char *answers_path(void)
{
    const char *path = getenv("NVML_STAND_IN");

    return path ? path : "/etc/nvml-stand-in.conf";
}

static void load(void)
{
    FILE *file = fopen(answers_path(), "r");
    size_t got = file ? fread(answers, 1, sizeof answers - 1, file) : 0;

    answers[got] = 0;
    if (file)
        fclose(file);
}

/* Copies the value of a key to buf and returns it, or returns NULL where no line has the key. */
static const char *text(const char *key, char *buf, size_t size)
{
    size_t len = strlen(key);
    const char *found = NULL;

    for (const char *line = answers; *line; line += strspn(line, "\n")) {
        size_t line_len = strcspn(line, "\n");

        if (line_len > len && !strncmp(line, key, len) && line[len] == ' ') {
            snprintf(buf, size, "%.*s", (int)(line_len - len - 1), line + len + 1);
            found = buf;
        }
        line += line_len;
    }
    return found;
}

static int listed(const char *key)
{
    char buf[128];

    return text(key, buf, sizeof buf) != NULL;
}

static unsigned long long number(const char *key, unsigned long long fallback)
{
    char buf[128];

    return text(key, buf, sizeof buf) ? strtoull(buf, NULL, 0) : fallback;
}

static unsigned gpu_of(nvmlDevice d)  { return (((size_t)d) & 255) - 1; }
static int mig_of(nvmlDevice d)       { return (int)(((size_t)d) >> 8) - 1; }

static unsigned long long gpu_number(nvmlDevice d, const char *name, unsigned long long fallback)
{
    char key[160];

    snprintf(key, sizeof key, "gpu%u.%s", gpu_of(d), name);
    return number(key, fallback);
}

static void hang_if(const char *key)
{
    while (number(key, 0))
        pause();
}

/* What every call does first: hang or fail where the file says so. */
static int enter_gpu(unsigned gpu, const char *call)
{
    char key[160];
    int all;

    snprintf(key, sizeof key, "hang.%s", call);
    hang_if(key);
    snprintf(key, sizeof key, "gpu%u.hang.%s", gpu, call);
    hang_if(key);
    snprintf(key, sizeof key, "gpu%u.error", gpu);
    all = (int)number(key, OK);
    snprintf(key, sizeof key, "gpu%u.error.%s", gpu, call);
    return (int)number(key, (unsigned)all);
}

#define ENTER(device)                                                                              \
    do {                                                                                           \
        int refused = enter_gpu(gpu_of(device), __func__);                                         \
        if (refused)                                                                               \
            return refused;                                                                        \
    } while (0)

static int copy_text(nvmlDevice d, const char *name, const char *fallback, char *out, unsigned size)
{
    char key[160], buf[128];

    if (mig_of(d) >= 0)
        snprintf(key, sizeof key, "gpu%u.mig%d.%s", gpu_of(d), mig_of(d), name);
    else
        snprintf(key, sizeof key, "gpu%u.%s", gpu_of(d), name);
    snprintf(out, size, "%s", text(key, buf, sizeof buf) ? buf : fallback);
    return OK;
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    load();
    hang_if("hang.nvmlInitWithFlags");
    return (int)number("init", OK);
}

int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code)
{
    static char buf[32];

    snprintf(buf, sizeof buf, "NVML error %d", code);
    return buf;
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    char buf[128];

    snprintf(out, size, "%s", text("driver", buf, sizeof buf) ? buf : "570.86.15");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    hang_if("hang.nvmlDeviceGetCount_v2");
    *count = (unsigned)number("count", 0);
    return (int)number("error.nvmlDeviceGetCount_v2", OK);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice *device)
{
    if (index >= number("count", 0) || index >= MAX_GPUS)
        return INVALID_ARGUMENT;
    *device = (nvmlDevice)(size_t)(index + 1);
    ENTER(*device);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(nvmlDevice d, PciInfo *info)
{
    ENTER(d);
    memset(info, 0, sizeof *info);
    copy_text(d, "pci", "00000000:01:00.0", info->bus_id, sizeof info->bus_id);
    sscanf(info->bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    return OK;
}

int nvmlDeviceGetUUID(nvmlDevice d, char *out, unsigned size)
{
    ENTER(d);
    return copy_text(d, "uuid", "GPU-00000000-0000-0000-0000-000000000000", out, size);
}

int nvmlDeviceGetName(nvmlDevice d, char *out, unsigned size)
{
    ENTER(d);
    return copy_text(d, "name", "Stand-in GPU", out, size);
}

int nvmlDeviceGetMinorNumber(nvmlDevice d, unsigned *minor)
{
    ENTER(d);
    *minor = (unsigned)gpu_number(d, "minor", gpu_of(d));
    return OK;
}

int nvmlDeviceGetMigMode(nvmlDevice d, unsigned *current, unsigned *pending)
{
    ENTER(d);
    *current = *pending = (unsigned)gpu_number(d, "mig", 0);
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice d, unsigned *count)
{
    ENTER(d);
    *count = gpu_number(d, "mig", 0) ? 7 : 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice d, unsigned index, nvmlDevice *out)
{
    char key[160];

    ENTER(d);
    snprintf(key, sizeof key, "gpu%u.mig%u.uuid", gpu_of(d), index);
    if (index >= MAX_MIG || !listed(key))
        return NOT_FOUND;
    *out = (nvmlDevice)((size_t)d + 256 * (size_t)(index + 1));
    return OK;
}

static unsigned mig_number(nvmlDevice d, const char *name)
{
    char key[160];

    snprintf(key, sizeof key, "mig%d.%s", mig_of(d), name);
    return (unsigned)gpu_number(d, key, 0);
}

int nvmlDeviceGetGpuInstanceId(nvmlDevice d, unsigned *id)
{
    ENTER(d);
    *id = mig_number(d, "gi");
    return OK;
}

int nvmlDeviceGetComputeInstanceId(nvmlDevice d, unsigned *id)
{
    ENTER(d);
    *id = mig_number(d, "ci");
    return OK;
}

int nvmlDeviceGetTotalEccErrors(nvmlDevice d, unsigned kind, unsigned counter,
                                unsigned long long *count)
{
    ENTER(d);
    *count = kind == 1 && counter == 0 ? gpu_number(d, "ecc", 0) : 0;
    return OK;
}

int nvmlDeviceGetSramEccErrorStatus(nvmlDevice d, SramStatus *status)
{
    ENTER(d);
    if (status->version != (sizeof *status | 1u << 24))
        return UNKNOWN_VERSION;
    status->vol_parity = gpu_number(d, "sram_parity", 0);
    status->vol_secded = gpu_number(d, "sram_secded", 0);
    status->threshold = (unsigned)gpu_number(d, "sram_threshold", 0);
    return OK;
}

int nvmlDeviceGetRetiredPages(nvmlDevice d, unsigned cause, unsigned *count,
                              unsigned long long *addresses)
{
    unsigned pages;

    ENTER(d);
    pages = (unsigned)gpu_number(d, cause ? "retired_double" : "retired_single", 0);
    for (unsigned i = 0; addresses && i < pages && i < *count; i++)
        addresses[i] = 0x1000ull * (i + 1);
    *count = pages;
    return OK;
}

int nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice d, unsigned *pending)
{
    ENTER(d);
    *pending = (unsigned)gpu_number(d, "retired_pending", 0);
    return OK;
}

int nvmlDeviceGetRemappedRows(nvmlDevice d, unsigned *cor, unsigned *unc, unsigned *pending,
                              unsigned *failed)
{
    ENTER(d);
    *cor = 0;
    *unc = (unsigned)gpu_number(d, "remap_uncorrected", 0);
    *pending = (unsigned)gpu_number(d, "remap_pending", 0);
    *failed = (unsigned)gpu_number(d, "remap_failed", 0);
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice d, unsigned long long *reasons)
{
    ENTER(d);
    *reasons = gpu_number(d, "clock_events", 1);
    return OK;
}

/* The same call under the only name that drivers before R535 know. */
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice d, unsigned long long *reasons)
{
    ENTER(d);
    *reasons = gpu_number(d, "clock_events", 1);
    return OK;
}

int nvmlDeviceGetViolationStatus(nvmlDevice d, unsigned policy, ViolationTime *time)
{
    ENTER(d);
    time->reference_us = 0;
    time->violation_ns = policy == 1 ? gpu_number(d, "thermal_ns", 0) : 0;
    return OK;
}

int nvmlDeviceGetTemperature(nvmlDevice d, unsigned sensor, unsigned *celsius)
{
    (void)sensor;
    ENTER(d);
    *celsius = (unsigned)gpu_number(d, "temperature", 40);
    return OK;
}

int nvmlDeviceGetUtilizationRates(nvmlDevice d, Utilization *rates)
{
    ENTER(d);
    rates->gpu = (unsigned)gpu_number(d, "utilization", 0);
    rates->memory = 0;
    return OK;
}

#define UNSIGNED_READING(call, key, fallback)                                                      \
    int call(nvmlDevice d, unsigned *value)                                                        \
    {                                                                                              \
        ENTER(d);                                                                                  \
        *value = (unsigned)gpu_number(d, key, fallback);                                           \
        return OK;                                                                                 \
    }

UNSIGNED_READING(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation", 5)
UNSIGNED_READING(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max", 5)
UNSIGNED_READING(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 16)
UNSIGNED_READING(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 16)
UNSIGNED_READING(nvmlDeviceGetPcieReplayCounter, "pcie_replays", 0)

int nvmlDeviceGetNvLinkState(nvmlDevice d, unsigned link, unsigned *active)
{
    char key[32];

    ENTER(d);
    if (!gpu_number(d, "links", 0))
        return NOT_SUPPORTED;
    if (link >= gpu_number(d, "links", 0))
        return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "link%u", link);
    *active = (unsigned)gpu_number(d, key, 1);
    return OK;
}

int nvmlDeviceGetFieldValues(nvmlDevice d, int count, FieldValue *values)
{
    ENTER(d);
    for (int i = 0; i < count; i++) {
        char key[48], full[160];

        snprintf(key, sizeof key, "field.%u.%u", values[i].field, values[i].scope);
        snprintf(full, sizeof full, "gpu%u.%s", gpu_of(d), key);
        if (!listed(full))
            snprintf(key, sizeof key, "field.%u", values[i].field);
        snprintf(full, sizeof full, "gpu%u.%s", gpu_of(d), key);
        values[i].type = FIELD_ULL;
        values[i].result = listed(full) || values[i].field == 230 ? OK : NOT_SUPPORTED;
        values[i].value.u = gpu_number(d, key, 0);
    }
    return OK;
}

int nvmlDeviceGetGpuFabricInfoV(nvmlDevice d, FabricV2 *info)
{
    ENTER(d);
    if (info->version != (sizeof *info | 2u << 24))
        return UNKNOWN_VERSION;
    info->state = (unsigned)gpu_number(d, "fabric_state", 0);
    info->status = (unsigned)gpu_number(d, "fabric_status", 0);
    info->health = (unsigned)gpu_number(d, "fabric_health", 0);
    return OK;
}

/* Events: a waiting call reads the file anew every few milliseconds, and gives each line once. */
typedef struct event_set { unsigned long long wanted[MAX_GPUS]; } *nvmlEventSet;

int nvmlEventSetCreate(nvmlEventSet *set)
{
    hang_if("hang.nvmlEventSetCreate");
    *set = calloc(1, sizeof **set);
    return OK;
}

int nvmlEventSetFree(nvmlEventSet set)
{
    free(set);
    return OK;
}

int nvmlDeviceGetSupportedEventTypes(nvmlDevice d, unsigned long long *types)
{
    ENTER(d);
    *types = gpu_number(d, "event_types", 0xf01f);
    return OK;
}

int nvmlDeviceRegisterEvents(nvmlDevice d, unsigned long long types, nvmlEventSet set)
{
    ENTER(d);
    set->wanted[gpu_of(d)] |= types;
    return OK;
}

static int next_event(nvmlEventSet set, EventData *event)
{
    static unsigned given;
    char key[32], buf[128];
    unsigned gpu;

    for (;;) {
        snprintf(key, sizeof key, "event%u", given + 1);
        if (!text(key, buf, sizeof buf))
            return 0;
        given++;
        memset(event, 0, sizeof *event);
        event->gpu_instance = event->compute_instance = 0xffffffff;
        if (sscanf(buf, "%u %llu %llu %u", &gpu, &event->type, &event->data,
                   &event->gpu_instance) < 3)
            continue;
        event->device = (nvmlDevice)(size_t)(gpu + 1);
        if (gpu < MAX_GPUS && (set->wanted[gpu] & event->type))
            return 1;
    }
}

/* Whether the answers were written since the last look: to read them costs a waiter what NVML does not. */
static int is_rewritten(struct stat *seen)
{
    struct stat now = {0};
    int same;

    stat(answers_path(), &now);
    same = now.st_ino == seen->st_ino && now.st_size == seen->st_size &&
           !memcmp(&now.st_mtim, &seen->st_mtim, sizeof now.st_mtim);
    *seen = now;
    return !same;
}

int nvmlEventSetWait_v2(nvmlEventSet set, EventData *event, unsigned milliseconds)
{
    struct stat seen = {0};

    for (unsigned waited = 0;; waited += 250) {
        if (is_rewritten(&seen)) {
            int refused;

            load();
            hang_if("hang.nvmlEventSetWait_v2");
            refused = (int)number("wait", OK);
            if (refused)
                return refused;
            if (next_event(set, event))
                return OK;
        }
        if (waited >= milliseconds)
            return TIMEOUT;
        usleep(250000);
    }
}
