/* A chain of dependent loads: every line of the buffer holds the offset of the next one to visit. */
#include <stdint.h>

#define LINE 64u

static uint64_t *at(char *base, uint64_t offset) { return (uint64_t *)(base + offset); }

/* One cycle through all lines in random order: Sattolo's variant of the Fisher-Yates shuffle.
   `order` has room for one 32-bit number per line, and holds the line after each one from then on. */
void chain_build(char *base, uint32_t *order, uint64_t lines, uint64_t seed)
{
    uint64_t state = seed | 1u;
    for (uint64_t i = 0; i < lines; i++) order[i] = (uint32_t)i;
    for (uint64_t i = lines - 1; i > 0; i--) {
        state ^= state << 13; state ^= state >> 7; state ^= state << 17; /* xorshift64 */
        uint64_t j = state % i;
        uint32_t kept = order[i]; order[i] = order[j]; order[j] = kept;
    }
    for (uint64_t i = 0; i < lines; i++) *at(base, i * LINE) = (uint64_t)order[i] * LINE;
}

/* Follow the chain; the address of every load is the value of the one before it. */
uint64_t chain_walk(char *base, uint64_t offset, uint64_t steps)
{
    while (steps--) offset = *at(base, offset);
    return offset;
}

/* How many lines do not hold the offset that was written there: in order, so at the memory's full rate. */
uint64_t chain_wrong(char *base, const uint32_t *order, uint64_t lines)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < lines; i++) wrong += *at(base, i * LINE) != (uint64_t)order[i] * LINE;
    return wrong;
}

/* The offset at which a walk must arrive, found without the buffer. */
uint64_t chain_expected(const uint32_t *order, uint64_t offset, uint64_t steps)
{
    uint64_t line = offset / LINE;
    while (steps--) line = order[line];
    return line * LINE;
}
