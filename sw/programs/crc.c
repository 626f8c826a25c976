/* CRC-32 (IEEE 802.3) of 4 KiB, by bytes with a table and by bits over a part of it. */
#include "core.h"

#define LENGTH 4096
#define PART 256

static uint8_t message[LENGTH];
static uint32_t table[256];

static uint32_t step(uint32_t crc)
{
    for (int bit = 0; bit < 8; ++bit)
        crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    return crc;
}

static void prepare(void)
{
    for (uint32_t i = 0; i < 256; ++i)
        table[i] = step(i);
    for (int i = 0; i < LENGTH; ++i)
        message[i] = (uint8_t)(i * 7 + (i >> 8));
}

static uint32_t by_table(const uint8_t *bytes, int length)
{
    uint32_t crc = ~0u;
    for (int i = 0; i < length; ++i)
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xFF];
    return ~crc;
}

static uint32_t by_bits(const uint8_t *bytes, int length)
{
    uint32_t crc = ~0u;
    for (int i = 0; i < length; ++i)
        crc = step(crc ^ bytes[i]);
    return ~crc;
}

static uint64_t pass(void)
{
    if (by_table(message, PART) != by_bits(message, PART))
        return 0;
    return by_table(message, LENGTH);
}

int main(void)
{
    return measure("crc", prepare, pass, 0x462c1e21);
}
