// SPDX-License-Identifier: Apache-2.0

/* libuv closes descriptors by syscall(SYS_close), which ThreadSanitizer does not see: it takes the
 * next file with that number for the one before, and its close on another thread for a race. A test
 * under ThreadSanitizer has this syscall() instead of libc's, whose closes are seen. */
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static long call(long number, const long a[6])
{
    long ret;

#if defined(__x86_64__)
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    register long r9 __asm__("r9") = a[5];

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a[0];
    register long x1 __asm__("x1") = a[1];
    register long x2 __asm__("x2") = a[2];
    register long x3 __asm__("x3") = a[3];
    register long x4 __asm__("x4") = a[4];
    register long x5 __asm__("x5") = a[5];

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    ret = x0;
#else
#error "a system call of this machine is needed here"
#endif
    return ret;
}

long syscall(long number, ...)
{
    long a[6];
    long ret;
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_close)
        return close((int)a[0]);
    ret = call(number, a);
    if (ret < 0 && ret >= -4095) {
        errno = (int)-ret;
        return -1;
    }
    return ret;
}
