/* Random bytes from a seed, in place of the system's: hash maps and tokio's choices are then the same in every run.
 * Each thread has the same sequence, so that no thread's timing changes another's. It is loaded before the C library. */

#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

static __thread uint64_t state;

static uint64_t next(void) {
    if (state == 0) {
        const char *seed = getenv("SIMULATION_SEED");
        state = seed == NULL ? 1 : strtoull(seed, NULL, 10) + 1;
    }
    state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    unsigned char *bytes = buffer;
    (void)flags;
    for (size_t place = 0; place < length; place++)
        bytes[place] = (unsigned char)next();
    return (ssize_t)length;
}
