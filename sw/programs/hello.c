/* The C library and the console: printf with every integer conversion. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char expected[] = "  42|0x2a|-7    |+5|00123|c|text|te|-9223372036854775808|18446744073709551615";

int main(void)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%4d|%#x|%-6d|%+d|%05u|%c|%s|%.2s|%ld|%lu", 42, 42, -7, 5, 123u,
                          'c', "text", "text", LONG_MIN, ULONG_MAX);

    printf("hello from the slice core\n");
    puts(line);
    if (length != (int)strlen(expected) || strcmp(line, expected) != 0) {
        printf("expected %s (%d), got %d\n", expected, (int)strlen(expected), length);
        return 1;
    }
    return 0;
}
