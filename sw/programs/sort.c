/* Sorting: quicksort with insertion sort of short runs, and heapsort of the same data. */
#include "core.h"

#define COUNT 300

static uint32_t numbers[COUNT], others[COUNT];

static void prepare(void)
{
    uint32_t state = 12345;
    for (int i = 0; i < COUNT; ++i) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = others[i] = state >> 8;
    }
}

static void quicksort(uint32_t *first, uint32_t *last)
{
    while (last - first > 12) {
        uint32_t pivot = first[(last - first) / 2];
        uint32_t *low = first, *high = last;
        while (low <= high) {
            while (*low < pivot)
                ++low;
            while (*high > pivot)
                --high;
            if (low <= high) {
                uint32_t kept = *low;
                *low++ = *high;
                *high-- = kept;
            }
        }
        if (high - first < last - low) {
            quicksort(first, high);
            first = low;
        } else {
            quicksort(low, last);
            last = high;
        }
    }
    for (uint32_t *next = first + 1; next <= last; ++next) {
        uint32_t value = *next, *place = next;
        for (; place > first && place[-1] > value; --place)
            *place = place[-1];
        *place = value;
    }
}

static void sift(uint32_t *heap, int root, int count)
{
    uint32_t value = heap[root];
    for (int child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && heap[child] < heap[child + 1])
            ++child;
        if (heap[child] <= value)
            break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

static void heapsort(uint32_t *heap, int count)
{
    for (int root = count / 2; root-- > 0;)
        sift(heap, root, count);
    while (--count > 0) {
        uint32_t largest = heap[0];
        heap[0] = heap[count];
        heap[count] = largest;
        sift(heap, 0, count);
    }
}

static uint64_t pass(void)
{
    quicksort(numbers, numbers + COUNT - 1);
    heapsort(others, COUNT);
    for (int i = 0; i < COUNT; ++i) {
        if (numbers[i] != others[i] || (i && numbers[i - 1] > numbers[i]))
            return 0;
    }
    return 1;
}

int main(void)
{
    return measure("sort", prepare, pass, 1);
}
