/* Packets as a BMC sends them: with keys, without, as IPMI messages, as FRU data. */
#include <stdint.h>
#include <string.h>

#include "bmc/fru.h"
#include "bmc/rmcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rakp r = {.suite = cipher_suite_find(size % 2 ? 3 : 17), .user = "admin"};
    struct rmcp_keys keys;
    struct rmcp_packet p;
    struct ipmi_message m;
    uint8_t packet[RMCP_MAX];
    rakp_keys(&r, &keys);
    (void)rmcp_decode(data, size, &keys, &p);
    if (rmcp_decode(data, size, NULL, &p))
        (void)ipmi_decode(p.data, p.len, &m);
    (void)ipmi_decode(data, size, &m);
    json_decref(fru_parse(data, size));
    /* the payload protected as a BMC would, so that the inner parsers are reached */
    size_t n = size < 500 ? rmcp_encode(PAYLOAD_IPMI, 1, 1, data, size, &keys, packet) : 0;
    if (n > 0 && rmcp_decode(packet, n, &keys, &p))
        (void)ipmi_decode(p.data, p.len, &m);
    return 0;
}
