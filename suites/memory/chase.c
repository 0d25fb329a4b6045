/* A chain of dependent loads: every line of the buffer holds the address of the next one to visit. An offset
   would be added to the base in every load, a cycle in fifteen where the second-level cache answers. */
#include <stdint.h>

#define LINE 64u

static uint64_t *at(char *base, uint64_t offset) { return (uint64_t *)(base + offset); }
static uint64_t address(char *base, uint32_t line) { return (uint64_t)(base + (uint64_t)line * LINE); }

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
    for (uint64_t i = 0; i < lines; i++) *at(base, i * LINE) = address(base, order[i]);
}

/* Follow the chain; the address of every load is the value of the one before it. */
uint64_t chain_walk(char *base, uint64_t offset, uint64_t steps)
{
    uint64_t *here = at(base, offset);
    while (steps--) here = (uint64_t *)*here;
    return (uint64_t)((char *)here - base);
}

/* How many lines do not hold the address that was written there: in order, so at the memory's full rate. */
uint64_t chain_wrong(char *base, const uint32_t *order, uint64_t lines)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < lines; i++) wrong += *at(base, i * LINE) != address(base, order[i]);
    return wrong;
}

/* The offset at which a walk must arrive, found without the buffer. */
uint64_t chain_expected(const uint32_t *order, uint64_t offset, uint64_t steps)
{
    uint64_t line = offset / LINE;
    while (steps--) line = order[line];
    return line * LINE;
}
