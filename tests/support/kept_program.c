/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for perfleet-keep: kept_program MODE DIR. It dies by SIGKILL, and what it finds in its
 * next process is judged there: status 2 (nothing is started again) when a claim does not hold.
 *
 *     lives     killed at any moment while it stores, removes, writes; 0 after LIVES of them
 *     fill      more than the keeper takes; names that are there twice; removal
 *     stranger  another process of this user sends notices, which are refused
 *     garbage   datagrams that make no sense
 *     signals   tells which signals come; SIGTERM ends it with 7
 *
 * DIR/starts counts its processes.
 */
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/notify.h"
#include "base/stored_fds.h"
#include "base/unix_addr.h"

#define LIVES      60u
#define PARTS_KEPT 5u
#define MAX        768u

#define EXPECT(claim)                                                                              \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            (void)fprintf(stderr, "kept_program: line %d: %s\n", __LINE__, #claim);                \
            _exit(2);                                                                              \
        }                                                                                          \
    } while (0)

/* In the memory that outlives us. What is done is noted after; `begun` and `removing` before. */
struct memory {
    uint64_t lives;
    uint64_t stored;
    uint64_t removing;
    uint64_t removed;
    uint64_t sent;
    uint64_t received;
};

static struct pfl_stored_fds kept;

static unsigned count_start(const char *dir)
{
    struct stat st;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(dir_fd, "starts", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    EXPECT(fd >= 0 && write(fd, "x", 1) == 1 && fstat(fd, &st) == 0);
    (void)close(fd);
    (void)close(dir_fd);
    return (unsigned)st.st_size;
}

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
}

static unsigned count(const char *name)
{
    unsigned n = 0;

    for (size_t i = 0; i < kept.len; i++)
        n += strcmp(kept.list[i].name, name) == 0;
    return n;
}

static int find(const char *name)
{
    for (size_t i = 0; i < kept.len; i++) {
        if (strcmp(kept.list[i].name, name) == 0)
            return kept.list[i].fd;
    }
    return -1;
}

static void store(const char *name, int fd)
{
    int rc;

    do {
        rc = pfl_notify_store(name, fd);
    } while (rc == PFL_EAGAIN);
    EXPECT(rc == 0);
}

static int make_file(uint64_t content)
{
    int fd = memfd_create("kept", MFD_CLOEXEC);

    EXPECT(fd >= 0 && write(fd, &content, sizeof(content)) == sizeof(content));
    return fd;
}

static void name_part(char *name, size_t size, uint64_t number)
{
    (void)snprintf(name, size, "part-%llu", (unsigned long long)number);
}

/* --- lives ------------------------------------------------------------------------------- */

static void arm(unsigned starts)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {0};
    timer_t timer;
    uint32_t random;

    EXPECT(getrandom(&random, sizeof(random), 0) == sizeof(random));
    /* a slow machine gets further as the lives become longer */
    when.it_value.tv_nsec = 1 + (long)(random % (1000000u + 100000u * (starts % 1000)));
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    EXPECT(timer_settime(timer, 0, &when, NULL) == 0);
}

static struct memory *map_memory(int fd)
{
    struct memory *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    EXPECT(m != MAP_FAILED);
    return m;
}

/* The memory comes last: once it is there, all is. */
static struct memory *begin_again(int *ends)
{
    int fd = memfd_create("memory", MFD_CLOEXEC);

    pfl_notify_unstore("socket-a");
    pfl_notify_unstore("socket-b");
    EXPECT(fd >= 0 && ftruncate(fd, sizeof(struct memory)) == 0);
    EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    store("socket-a", ends[0]);
    store("socket-b", ends[1]);
    store("memory", fd);
    return map_memory(fd);
}

static void judge_parts(struct memory *m)
{
    uint64_t content;
    char name[64];

    for (uint64_t n = 1; n <= m->stored + 2; n++) {
        unsigned there;

        name_part(name, sizeof(name), n);
        there = count(name);
        if (n <= m->removed || n == m->stored + 2)
            EXPECT(there == 0);
        else if (n > m->removing && n <= m->stored)
            EXPECT(there == 1);
        else
            EXPECT(there <= 1);
        EXPECT(there == 0 || (pread(find(name), &content, sizeof(content), 0) == sizeof(content) &&
                              content == n));
        if (n == m->stored + 1 && there == 1)
            m->stored = n;
    }
}

/* What was sent is there once, in order; its receipt is noted before it is taken. */
static void receive_all(struct memory *m, int fd)
{
    uint64_t n;

    while (recv(fd, &n, sizeof(n), MSG_PEEK) == sizeof(n)) {
        EXPECT(n == m->received || n == m->received + 1);
        m->received = n;
        EXPECT(recv(fd, &n, sizeof(n), 0) == sizeof(n));
    }
    EXPECT(m->received >= m->sent);
}

static void work(struct memory *m, const int *ends)
{
    uint64_t n = m->stored + 1;
    char name[64];
    int fd = make_file(n);

    name_part(name, sizeof(name), n);
    store(name, fd);
    m->stored = n;
    (void)close(fd);
    if (m->stored - m->removed > PARTS_KEPT) {
        m->removing = m->removed + 1;
        name_part(name, sizeof(name), m->removing);
        pfl_notify_unstore(name);
        m->removed = m->removing;
    }
    n = m->sent + 1;
    EXPECT(send(ends[0], &n, sizeof(n), MSG_NOSIGNAL) == sizeof(n));
    m->sent = n;
    receive_all(m, ends[1]);
}

static void live(unsigned starts)
{
    int ends[2];
    struct memory *m;

    arm(starts);
    EXPECT(pfl_stored_fds_take(&kept) == 0);
    pfl_notify_open();
    pfl_notify_send("READY=1");
    EXPECT(pfl_notify_has_store());
    if (find("memory") < 0) {
        EXPECT(kept.len <= 2);
        m = begin_again(ends);
    } else {
        EXPECT(count("memory") == 1 && count("socket-a") == 1 && count("socket-b") == 1);
        m = map_memory(find("memory"));
        ends[0] = find("socket-a");
        ends[1] = find("socket-b");
        judge_parts(m);
        receive_all(m, ends[1]);
    }
    m->lives++;
    if (m->lives >= LIVES) {
        (void)printf("lives=%llu starts=%u stored=%llu sent=%llu\n", (unsigned long long)m->lives,
                     starts, (unsigned long long)m->stored, (unsigned long long)m->sent);
        (void)fflush(stdout);
        _exit(0);
    }
    for (;;)
        work(m, ends);
}

/* --- the others -------------------------------------------------------------------------- */

static bool can_compare(void)
{
    long pid = getpid();

    return syscall(SYS_kcmp, pid, pid, KCMP_FILE, 2L, 2L) == 0;
}

static void judge_order(void)
{
    char name[64];

    EXPECT(kept.len == MAX);
    for (unsigned i = 0; i < MAX; i++) {
        (void)snprintf(name, sizeof(name), "n-%u", i);
        EXPECT(strcmp(kept.list[i].name, name) == 0);
    }
}

static void fill(unsigned starts)
{
    const unsigned twins = can_compare() ? 2 : 3;
    char name[64];

    EXPECT(pfl_stored_fds_take(&kept) == 0);
    if (starts == 1) {
        EXPECT(kept.len == 0);
        for (unsigned i = 0; i < MAX + 30; i++) {
            (void)snprintf(name, sizeof(name), "n-%u", i);
            store(name, make_file(i));
        }
        die();
    } else if (starts == 2) {
        judge_order();
        pfl_notify_unstore("n-5");
        pfl_notify_unstore("n-700");
        pfl_notify_unstore("n-767");
        store("twin", make_file(1));
        store("twin", make_file(2));
        store("twin", find("n-1"));
        die();
    } else if (starts == 3) {
        /* n-1 is another file than the two, and there is room for it */
        EXPECT(kept.len == MAX && count("twin") == 3 && count("n-5") == 0 && count("n-767") == 0);
        pfl_notify_unstore("twin");
        store("twin", find("n-1"));
        store("twin", find("n-2"));
        store("twin", find("n-1"));
        die();
    }
    EXPECT(kept.len == MAX - 3 + twins && count("twin") == twins);
}

static void be_strange(void)
{
    store("stolen", make_file(1));
    pfl_notify_unstore("mine");
    pfl_notify_send("READY=1");
    _exit(0);
}

static void meet_stranger(unsigned starts)
{
    int status;
    pid_t pid;

    EXPECT(pfl_stored_fds_take(&kept) == 0);
    if (starts > 1) {
        EXPECT(kept.len == 1 && find("mine") >= 0);
        return;
    }
    store("mine", make_file(1));
    pid = fork();
    if (pid == 0)
        be_strange();
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    die();
}

static void send_bytes(const void *data, size_t len, unsigned fds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(253 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    struct sockaddr_un addr;
    int list[253] = {0};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    EXPECT(pfl_unix_addr_parse(getenv("NOTIFY_SOCKET"), &addr, &message.msg_namelen) == 0);
    message.msg_name = &addr;
    if (fds != 0) {
        for (unsigned i = 0; i < fds; i++)
            list[i] = STDERR_FILENO;
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(fds * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), list, fds * sizeof(int));
    }
    EXPECT(sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)len);
    (void)close(fd);
}

static void send_garbage(unsigned starts)
{
    static char bytes[8192];
    static const char *const texts[] = {"FDSTORE=1",
                                        "FDSTOREREMOVE=1",
                                        "FDSTOREREMOVE=1\nFDNAME=",
                                        "FDSTORE=1\nFDNAME=none-comes",
                                        "\n\n\n",
                                        "=",
                                        "READY=1\nREADY=1"};

    EXPECT(pfl_stored_fds_take(&kept) == 0);
    if (starts > 1) {
        EXPECT(kept.len == 2 && count("stored") == 1 && count("after") == 1);
        return;
    }
    send_bytes(bytes, 0, 0);
    send_bytes(bytes, 100, 5);
    memset(bytes, 'A', sizeof(bytes));
    send_bytes(bytes, 4096, 253);
    send_bytes(bytes, 4097, 253);
    send_bytes(bytes, sizeof(bytes), 1);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        send_bytes(texts[i], strlen(texts[i]), 0);
    for (unsigned i = 0; i < 200; i++) {
        EXPECT(getrandom(bytes, 64, 0) == 64);
        send_bytes(bytes, 64, i % 4);
    }
    send_bytes("FDSTORE=1\nFDNAME=a:b", 20, 1);
    store("after", STDERR_FILENO);
    die();
}

static void tell_signals(void)
{
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    (void)setvbuf(stdout, NULL, _IONBF, 0);
    (void)printf("waiting\n");
    while (sigwait(&set, &number) == 0 && number != SIGTERM)
        (void)printf("signal=%d\n", number);
    _exit(7);
}

int main(int argc, char **argv)
{
    const char *mode = argc == 3 ? argv[1] : "";
    unsigned starts;

    EXPECT(argc == 3);
    starts = count_start(argv[2]);
    if (strcmp(mode, "lives") == 0)
        live(starts);
    else if (strcmp(mode, "fill") == 0)
        fill(starts);
    else if (strcmp(mode, "stranger") == 0)
        meet_stranger(starts);
    else if (strcmp(mode, "garbage") == 0)
        send_garbage(starts);
    else if (strcmp(mode, "signals") == 0)
        tell_signals();
    else
        EXPECT(mode[0] == '\0');
    pfl_stored_fds_fini(&kept);
    return 0;
}
