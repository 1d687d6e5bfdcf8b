/*
 * FRU information: who made the machine and its serial numbers (IPMI Platform Management FRU
 * Information Storage Definition v1.0 rev. 1.3). Pure. Used by the ipmi driver and the fuzzer.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define FRU_MAX 4096 /* bytes of an area that are read */

/* {manufacturer, product, part, serial, chassis_serial, board_serial, board_product}; what is
 * absent or has a wrong checksum is left out. Never NULL; the caller json_decref()s. */
json_t *fru_parse(const uint8_t *data, size_t len);
