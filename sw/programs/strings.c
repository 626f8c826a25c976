/* Strings: a text is taken apart into words, each turned round, looked up among those before, and counted. */
#include <string.h>

#include "core.h"

#define LENGTH 800
#define WORDS 64

static const char *const parts[] = {"the", "core", "renames", "every", "register", "before", "it", "issues",
                                    "loads", "and", "stores", "out", "of", "order"};
static char text[LENGTH];
static char words[WORDS][16];
static int counts[WORDS];

static void prepare(void)
{
    uint32_t state = 7;
    char *end = text;
    while (end < text + LENGTH - 16) {
        state = state * 1103515245u + 12345u;
        const char *part = parts[(state >> 16) % 14];
        strcpy(end, part);
        end += strlen(part);
        *end++ = (state >> 12) & 1 ? ' ' : '\n';
    }
    *end = 0;
    memset(words, 0, sizeof words);
    memset(counts, 0, sizeof counts);
}

static uint64_t pass(void)
{
    int found = 0, total = 0;
    uint64_t hash = 0;
    for (char *at = text; *at;) {
        size_t length = strcspn(at, " \n");
        char word[16];
        for (size_t i = 0; i < length; ++i)
            word[i] = at[length - 1 - i];
        word[length] = 0;
        int place = 0;
        while (place < found && strcmp(words[place], word) != 0)
            ++place;
        if (place == found)
            strcpy(words[found++], word);
        ++counts[place];
        ++total;
        at += length;
        at += strspn(at, " \n");
    }
    for (int i = 0; i < found; ++i) {
        total -= counts[i];
        for (const char *letter = words[i]; *letter; ++letter)
            hash = hash * 31 + (unsigned char)*letter;
    }
    return total ? 0 : hash + (uint64_t)found * 1000003;
}

int main(void)
{
    return measure("strings", prepare, pass, 0xe0be1e56b4fde5b0);
}
