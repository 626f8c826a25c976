/* Configuration of picolibc for the slice core: what its build system would write.
   Integers only in printf, one global errno, no wide or multi-byte characters, no locks. */
#pragma once

#define TINY_STDIO
#define NEWLIB_GLOBAL_ERRNO
#define __SINGLE_THREAD__
#define _HAVE_ALIAS_ATTRIBUTE
#define _HAVE_WEAK_ATTRIBUTE
#define _HAVE_FORMAT_ATTRIBUTE
#define _HAVE_BUILTIN_CTZ
#define _HAVE_BUILTIN_CTZL
#define _HAVE_BUILTIN_FFS
#define _HAVE_BUILTIN_MUL_OVERFLOW
#define _HAVE_BUILTIN_ADD_OVERFLOW
#define _LITE_EXIT
#define _PICO_EXIT
#define _NANO_MALLOC
#define _MB_LEN_MAX 1
#define _WANT_IO_C99_FORMATS
#define _WANT_IO_LONG_LONG
#define __NEWLIB__ 4
#define __NEWLIB_MINOR__ 1
#define __NEWLIB_PATCHLEVEL__ 0
#define _NEWLIB_VERSION "4.1.0"
#define __PICOLIBC__ 1
#define __PICOLIBC_MINOR__ 7
#define __PICOLIBC_PATCHLEVEL__ 9
#define __PICOLIBC_VERSION__ "1.7.9"
