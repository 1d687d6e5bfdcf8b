/* The machine as a whole: DMI identity, firmware, kernel; processors and memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/mem.h"
#include "probe/probe.h"

enum { TABLE_MAX = 1 << 20, CPUS_MAX = 4096 };

static void dmi_text(struct probe *p, json_t *o, const char *key, const char *file)
{
    probe_set_text(o, key, probe_read(p, "/sys/class/dmi/id/%s", file));
}

void probe_system(struct probe *p)
{
    struct utsname u;
    if (p->root[0] == '\0' && uname(&u) == 0) {
        (void)json_object_set_new(p->out, "kernel", json_string(u.release));
        (void)json_object_set_new(p->out, "arch", json_string(u.machine));
        (void)json_object_set_new(p->out, "hostname", json_string(u.nodename));
    }
    probe_set_text(p->out, "boot_id", probe_read(p, "/proc/sys/kernel/random/boot_id"));
    (void)json_object_set_new(p->out, "firmware",
                              json_string(probe_exists(p, "/sys/firmware/efi") ? "efi" : "bios"));

    json_t *system = json_object(), *board = json_object();
    dmi_text(p, system, "vendor", "sys_vendor");
    dmi_text(p, system, "product", "product_name");
    dmi_text(p, system, "version", "product_version");
    dmi_text(p, system, "serial", "product_serial");
    dmi_text(p, system, "uuid", "product_uuid");
    dmi_text(p, system, "sku", "product_sku");
    dmi_text(p, system, "chassis_serial", "chassis_serial");
    dmi_text(p, system, "bios_vendor", "bios_vendor");
    dmi_text(p, system, "bios_version", "bios_version");
    dmi_text(p, system, "bios_date", "bios_date");
    dmi_text(p, board, "vendor", "board_vendor");
    dmi_text(p, board, "product", "board_name");
    dmi_text(p, board, "version", "board_version");
    dmi_text(p, board, "serial", "board_serial");
    if (!probe_exists(p, "/sys/class/dmi/id"))
        probe_problem(p, "no /sys/class/dmi/id: this kernel shows no SMBIOS");
    else if (json_object_get(system, "uuid") == NULL)
        probe_problem(p, "the system's serial and UUID are readable by root only");
    (void)json_object_set_new(p->out, "system", system);
    (void)json_object_set_new(p->out, "board", board);
}

static unsigned char *dmi_table(struct probe *p, size_t *ret_len)
{
    return probe_bytes(p, TABLE_MAX, ret_len, "/sys/firmware/dmi/tables/DMI");
}

/* ---- processors ---- */

struct cpu_count {
    int threads, sockets, cores;
    int physical[CPUS_MAX], core[CPUS_MAX]; /* of each thread; -1: not said */
    char model[128], vendor[64], microcode[32];
};

static void cpuinfo_line(struct cpu_count *c, const char *key, const char *value)
{
    int at = c->threads - 1;
    if (strcmp(key, "processor") == 0) {
        if (c->threads < CPUS_MAX) {
            c->physical[c->threads] = c->core[c->threads] = -1;
            c->threads++;
        }
    } else if (at >= 0 && strcmp(key, "physical id") == 0) {
        c->physical[at] = atoi(value);
    } else if (at >= 0 && strcmp(key, "core id") == 0) {
        c->core[at] = atoi(value);
    } else if (strcmp(key, "model name") == 0) {
        (void)snprintf(c->model, sizeof c->model, "%s", value);
    } else if (strcmp(key, "vendor_id") == 0) {
        (void)snprintf(c->vendor, sizeof c->vendor, "%s", value);
    } else if (strcmp(key, "microcode") == 0) {
        (void)snprintf(c->microcode, sizeof c->microcode, "%s", value);
    }
}

static void count_packages(struct cpu_count *c)
{
    for (int i = 0; i < c->threads; i++) {
        bool new_socket = true, new_core = true;
        for (int j = 0; j < i && (new_socket || new_core); j++) {
            if (c->physical[i] != c->physical[j])
                continue;
            new_socket = false;
            new_core = new_core && (c->core[i] != c->core[j] || c->core[i] < 0);
        }
        c->sockets += new_socket;
        c->cores += new_core;
    }
}

static void read_cpuinfo(struct probe *p, struct cpu_count *c)
{
    size_t len;
    /* each thread has a line of flags of about 2 kB */
    char *text = (char *)probe_bytes(p, (size_t)8 << 20, &len, "/proc/cpuinfo");
    char *save = NULL;
    for (char *line = text != NULL ? strtok_r(text, "\n", &save) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *colon = strchr(line, ':');
        if (colon == NULL)
            continue;
        char *end = colon;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        *end = '\0';
        cpuinfo_line(c, line, colon + 1 + strspn(colon + 1, " "));
    }
    free(text);
    count_packages(c);
}

struct smbios_list {
    json_t *rows;
};

static void add_processor(const struct smbios *s, void *user)
{
    struct smbios_list *l = user;
    if (s->type != 4 || s->len < 0x1A || (s->data[0x18] & 0x40) == 0)
        return; /* 7.5.5: bit 6 of the status says that the socket is populated */
    json_t *o = json_object();
    probe_set_text(o, "slot", smbios_string(s, 0x04));
    probe_set_text(o, "model", smbios_string(s, 0x10));
    probe_set_text(o, "serial", smbios_string(s, 0x20));
    (void)json_array_append_new(l->rows, o);
}

void probe_cpu(struct probe *p)
{
    struct cpu_count *c = xcalloc(1, sizeof *c);
    size_t len;
    read_cpuinfo(p, c);
    json_t *o =
        json_pack("{s:i,s:i,s:i}", "sockets", c->sockets, "cores", c->cores, "threads", c->threads);
    probe_set_text(o, "model", xstrdup(c->model));
    probe_set_text(o, "vendor", xstrdup(c->vendor));
    probe_set_text(o, "microcode", xstrdup(c->microcode));
    free(c);
    struct smbios_list l = {json_array()};
    unsigned char *table = dmi_table(p, &len);
    if (table != NULL)
        smbios_each(table, len, add_processor, &l);
    free(table);
    (void)json_object_set_new(o, "packages", l.rows);
    (void)json_object_set_new(p->out, "cpu", o);
}

/* ---- memory ---- */

static void add_dimm(const struct smbios *s, void *user)
{
    struct smbios_list *l = user;
    if (s->type != 17 || s->len < 0x15)
        return;
    /* 7.18.4, 7.18.5: size in MiB, or KiB with bit 15, or in the extended field */
    unsigned size = smbios_u16(s, 0x0C);
    long long mib = size == 0x7FFF         ? (long long)(smbios_u32(s, 0x1C) & 0x7FFFFFFF)
                    : (size & 0x8000) != 0 ? (size & 0x7FFF) / 1024
                                           : size;
    if (size == 0 || size == 0xFFFF)
        return; /* an empty slot */
    json_t *o = json_pack("{s:I}", "size_mib", (json_int_t)mib);
    probe_set_text(o, "slot", smbios_string(s, 0x10));
    probe_set_text(o, "bank", smbios_string(s, 0x11));
    probe_set_text(o, "manufacturer", smbios_string(s, 0x17));
    probe_set_text(o, "serial", smbios_string(s, 0x18));
    probe_set_text(o, "part", smbios_string(s, 0x1A));
    if (smbios_u16(s, 0x15) != 0)
        (void)json_object_set_new(o, "speed_mts", json_integer(smbios_u16(s, 0x15)));
    (void)json_array_append_new(l->rows, o);
}

void probe_memory(struct probe *p)
{
    size_t len;
    json_t *o = json_object();
    char *info = probe_read(p, "/proc/meminfo");
    const char *total = info != NULL ? strstr(info, "MemTotal:") : NULL;
    if (total != NULL)
        (void)json_object_set_new(o, "total_mib",
                                  json_integer(strtoll(total + 9, NULL, 10) / 1024));
    free(info);
    struct smbios_list l = {json_array()};
    unsigned char *table = dmi_table(p, &len);
    if (table != NULL)
        smbios_each(table, len, add_dimm, &l);
    free(table);
    (void)json_object_set_new(o, "dimms", l.rows);
    (void)json_object_set_new(p->out, "memory", o);
}
