/* Product of two square matrices of 32-bit integers, four columns at a time; checked by A (B r) = (A B) r. */
#include "core.h"

#define N 24

static int32_t a[N][N], b[N][N], c[N][N];

static void prepare(void)
{
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) {
            a[i][j] = (i * 37 + j * 11) % 101 - 50;
            b[i][j] = (i * 13 + j * 29) % 97 - 48;
            c[i][j] = -1;
        }
    }
}

static uint64_t pass(void)
{
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; j += 4) {
            int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
            for (int k = 0; k < N; ++k) {
                int32_t left = a[i][k];
                sum0 += left * b[k][j];
                sum1 += left * b[k][j + 1];
                sum2 += left * b[k][j + 2];
                sum3 += left * b[k][j + 3];
            }
            c[i][j] = sum0;
            c[i][j + 1] = sum1;
            c[i][j + 2] = sum2;
            c[i][j + 3] = sum3;
        }
    }
    int64_t vector[N], right[N];
    for (int i = 0; i < N; ++i)
        vector[i] = 3 * i - 17;
    for (int i = 0; i < N; ++i) {
        right[i] = 0;
        for (int j = 0; j < N; ++j)
            right[i] += b[i][j] * vector[j];
    }
    for (int i = 0; i < N; ++i) {
        int64_t expected = 0, got = 0;
        for (int j = 0; j < N; ++j) {
            expected += a[i][j] * right[j];
            got += c[i][j] * vector[j];
        }
        if (expected != got)
            return 0;
    }
    return 1;
}

int main(void)
{
    return measure("matrix", prepare, pass, 1);
}
