/* Standard output of picolibc on the host device's console. */
#include <stdarg.h>
#include <stdio.h>

#include "core.h"

static int put(char character, FILE *file)
{
    (void)file;
    host_put(character);
    return (unsigned char)character;
}

static FILE console = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);

/* printf without floating point, which is what picolibc calls by this name. */
int __i_vfprintf(FILE *file, const char *format, va_list arguments);

int vfprintf(FILE *file, const char *format, va_list arguments)
{
    return __i_vfprintf(file, format, arguments);
}

FILE *const stdin = NULL;
FILE *const stdout = &console;
FILE *const stderr = &console;
