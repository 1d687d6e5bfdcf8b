/* Hardware facts as a booted machine sends them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/fingerprint.h"
#include "model/hardware.h"
#include "model/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hardware *hw = NULL;
    struct err err;
    struct spec_node slot = {.serial = (char[]){"SN"}, .uuid = (char[]){"u"}};
    struct bom bom = {.cpus = 2,
                      .memory_mib = 1,
                      .gpus = 1,
                      .gpu_model = (char[]){"H"},
                      .nics = 1,
                      .hcas = 1,
                      .disks = 1,
                      .disk_gb = 1};
    struct identity_result r;
    struct strbuf sb;
    if (hardware_parse((const char *)data, size, &hw, &err) < 0)
        return 0;
    strbuf_init(&sb, 1 << 16);
    json_t *rows = inputs_new();
    for (int i = 0; part_kinds[i] != NULL; i++)
        parts_add(rows, hw, part_kinds[i], i % 2 == 0);
    json_decref(rows);
    (void)hardware_check_bom(hw, &bom, &sb);
    hardware_check_identity(hw, &slot, NULL, &r, &sb);
    (void)hardware_active_rdma_ports(hw, 0, &sb);
    strbuf_done(&sb);
    struct hardware *again = NULL;
    if (hardware_parse((const char *)data, size, &again, &err) < 0)
        abort();
    hardware_slim(again);
    if (hardware_count(again) != hardware_count(hw))
        abort();
    for (int i = 0; i < hardware_count(hw); i++)
        if (strcmp(hardware_at(hw, i)->value, hardware_at(again, i)->value) != 0)
            abort();
    hardware_free(again);
    hardware_free(hw);
    return 0;
}
