/* A loop with the mix of the Dhrystone benchmark, written anew: records that are copied and linked, string
   comparison, calls with pointers, an enumeration, arrays of one and two dimensions. */
#include <string.h>

#include "core.h"

#define RUNS 60

enum colour { RED, GREEN, BLUE, WHITE, BLACK };

struct record {
    struct record *next;
    enum colour colour, choice;
    int number;
    char name[32];
};

static struct record first, second;
static int line[50], square[50][50];
static int global_number;
static char global_letter;

__attribute__((noinline)) static enum colour next_colour(enum colour colour)
{
    switch (colour) {
    case RED: return BLUE;
    case GREEN: return global_number > 100 ? RED : BLACK;
    case BLUE: return GREEN;
    case WHITE: return WHITE;
    default: return RED;
    }
}

__attribute__((noinline)) static int letters_differ(char one, char other)
{
    char kept = one;
    if (kept == other) {
        global_letter = kept;
        return 0;
    }
    return 1;
}

__attribute__((noinline)) static int strings_in_order(const char *one, const char *other)
{
    for (int i = 2; i <= 3; ++i) {
        if (!letters_differ(one[i], other[i + 1]))
            return -1;
    }
    return strcmp(one, other) <= 0;
}

__attribute__((noinline)) static void fill(int *numbers, int (*table)[50], int at, int value)
{
    int place = at + 5;
    numbers[place] = value;
    numbers[place + 1] = numbers[place];
    numbers[place + 30] = place;
    for (int i = place; i <= place + 1; ++i)
        table[place][i] = place;
    ++table[place][place - 1];
    table[place + 20][place] = numbers[place];
    global_number = 5 + (value & 1);
}

__attribute__((noinline)) static void follow(struct record *record)
{
    struct record *next = record->next;
    *next = first;
    record->number = 5;
    next->number = record->number;
    next->next = record->next;
    next->choice = next_colour(next->choice);
    if (next->colour == RED) {
        next->number = 6;
        next->choice = next_colour(record->choice);
        next->number += 10;
    } else {
        *record = *next;
    }
}

static void prepare(void)
{
    memset(line, 0, sizeof line);
    memset(square, 0, sizeof square);
    first.next = &second;
    first.colour = RED;
    first.choice = BLUE;
    first.number = 40;
    strcpy(first.name, "a record, copied many a time");
    second = first;
    global_number = 0;
}

static uint64_t pass(void)
{
    char one[32], other[32];
    uint64_t sum = 0;
    strcpy(one, "a string with a 1 in the midst");
    for (int run = 1; run <= RUNS; ++run) {
        int a = 2, b = 3, c;
        strcpy(other, "a string with a 2 in the midst");
        enum colour colour = next_colour((enum colour)(run % 5));
        sum += (uint64_t)strings_in_order(one, other);
        do {
            c = 5 * a - b;
            sum += (uint64_t)(c > 6);
            ++a;
        } while (a < b);
        fill(line, square, a, c);
        follow(&first);
        for (char letter = 'A'; letter <= 'C' + run % 3; ++letter) {
            if (letters_differ(letter, 'C'))
                sum += (uint64_t)colour;
        }
        b = b * a;
        a = b / (c - 3);
        b = 7 * (b - c) - a;
        sum = sum * 3 + (uint64_t)(b + first.next->number + global_number);
    }
    for (int i = 0; i < 50; ++i)
        sum = sum * 7 + (uint64_t)line[i];
    return sum;
}

int main(void)
{
    return measure("dhry", prepare, pass, 0x41d80da42ae2a200);
}
