/* The three parts of the CoreMark benchmark, written anew: a linked list that is searched and sorted, a small
   matrix, and a state machine that reads numbers; a CRC over what they give. */
#include "core.h"

#define ITEMS 40
#define N 10

struct item {
    struct item *next;
    int16_t value, place;
};

static struct item items[ITEMS];
static struct item *list;
static int16_t a[N][N], b[N][N];
static int32_t c[N][N];
static const char input[] = "5012,-3.14,+7e3,0x1F,12.5e-2,abc,,+,9.9.9,-42,1e,0.001,77777,-1e+9,3..4,6";

static uint16_t crc16(uint32_t value, uint16_t crc)
{
    for (int bit = 0; bit < 32; ++bit, value >>= 1)
        crc = (uint16_t)(crc >> 1 ^ ((crc ^ value) & 1 ? 0xA001 : 0));
    return crc;
}

static void prepare(void)
{
    for (int i = 0; i < ITEMS; ++i) {
        items[i].next = i + 1 < ITEMS ? &items[i + 1] : 0;
        items[i].value = (int16_t)((i * 7919 + 13) % 251);
        items[i].place = (int16_t)i;
    }
    list = items;
    for (int i = 0; i < N * N; ++i) {
        a[0][i] = (int16_t)(i * 3 - 50);
        b[0][i] = (int16_t)(i * i % 61 - 30);
    }
}

static struct item *reverse(struct item *from)
{
    struct item *done = 0;
    while (from) {
        struct item *next = from->next;
        from->next = done;
        done = from;
        from = next;
    }
    return done;
}

static struct item *find(struct item *from, int16_t value)
{
    while (from && from->value != value)
        from = from->next;
    return from;
}

/* Merges runs of growing length. */
static struct item *sort(struct item *from, int by_place)
{
    for (int run = 1;; run *= 2) {
        struct item *rest = from, *tail = 0;
        int merges = 0;
        from = 0;
        while (rest) {
            ++merges;
            struct item *other = rest;
            int left = 0, right = run;
            while (left < run && other) {
                other = other->next;
                ++left;
            }
            while (left > 0 || (right > 0 && other)) {
                struct item *least;
                int first = left > 0 && (right == 0 || !other ||
                    (by_place ? rest->place <= other->place : rest->value <= other->value));
                if (first) {
                    least = rest;
                    rest = rest->next;
                    --left;
                } else {
                    least = other;
                    other = other->next;
                    --right;
                }
                if (tail)
                    tail->next = least;
                else
                    from = least;
                tail = least;
            }
            rest = other;
        }
        tail->next = 0;
        if (merges <= 1)
            return from;
    }
}

static uint16_t lists(uint16_t crc)
{
    for (int value = 0; value < 60; value += 7) {
        struct item *found = find(list, (int16_t)value);
        list = reverse(list);
        crc = crc16(found ? (uint32_t)found->place : 0xFFFF, crc);
    }
    list = sort(list, 0);
    for (struct item *item = list; item; item = item->next)
        crc = crc16((uint32_t)item->value, crc);
    list = sort(list, 1);
    return crc;
}

static uint16_t matrices(uint16_t crc)
{
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) {
            int32_t sum = 0;
            for (int k = 0; k < N; ++k)
                sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    }
    for (int i = 0; i < N; ++i) {
        int32_t sum = 0;
        for (int j = 0; j < N; ++j)
            sum += c[i][j] >> 2 & 0xFFF;
        crc = crc16((uint32_t)sum, crc);
    }
    return crc;
}

enum state { START, SIGN, WHOLE, FRACTION, EXPONENT, POWER_SIGN, POWER, BAD, STATES };

static uint16_t states(uint16_t crc)
{
    uint32_t ends[STATES] = {0}, steps = 0;
    enum state state = START;
    for (const char *at = input;; ++at) {
        char letter = *at;
        int digit = letter >= '0' && letter <= '9';
        ++steps;
        if (letter == ',' || letter == 0) {
            ++ends[state];
            state = START;
            if (letter == 0)
                break;
            continue;
        }
        switch (state) {
        case START: state = digit ? WHOLE : letter == '+' || letter == '-' ? SIGN : letter == '.' ? FRACTION : BAD; break;
        case SIGN: state = digit ? WHOLE : letter == '.' ? FRACTION : BAD; break;
        case WHOLE: state = digit ? WHOLE : letter == '.' ? FRACTION : letter == 'e' ? EXPONENT : BAD; break;
        case FRACTION: state = digit ? FRACTION : letter == 'e' ? EXPONENT : BAD; break;
        case EXPONENT: state = digit ? POWER : letter == '+' || letter == '-' ? POWER_SIGN : BAD; break;
        case POWER_SIGN: state = digit ? POWER : BAD; break;
        case POWER: state = digit ? POWER : BAD; break;
        default: break;
        }
    }
    for (int i = 0; i < STATES; ++i)
        crc = crc16(ends[i], crc);
    return crc16(steps, crc);
}

static uint64_t pass(void)
{
    uint16_t crc = 0;
    for (int i = 0; i < 2; ++i)
        crc = states(matrices(lists(crc)));
    return crc;
}

int main(void)
{
    return measure("mark", prepare, pass, 0x1fb0);
}
