/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service in a process of its own (see process.h): both perfleetd and traced take their sockets'
 * names from the environment. What it says goes to `log` in its directory, which is removed at
 * the end; that of a service that did not end well (by itself, with an exit code, as sanitizers do)
 * is copied to stderr first.
 */
#include "tests/differential/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TRIES   2000
#define START_WAIT_NS 5000000

static bool is_listening(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_connected;

    memcpy(address.sun_path, path, strlen(path) + 1);
    is_connected = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_connected;
}

static void name_file(const struct diff_process *self, const char *name, char ret_path[64])
{
    (void)snprintf(ret_path, 64, "%s/%s", self->dir, name);
}

/* In the child. */
static _Noreturn void become(const struct diff_process *self)
{
    char log[64], arg[256];
    char *argv[] = {arg, NULL};
    int fd;

    name_file(self, "log", log);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("PERFETTO_PRODUCER_SOCK_NAME", self->producer, 1);
    setenv("PERFETTO_CONSUMER_SOCK_NAME", self->consumer, 1);
    (void)snprintf(arg, sizeof(arg), "%s", self->program);
    execvp(self->program, argv);
    _exit(127);
}

void diff_process_start(struct diff_process *self, const char *program)
{
    struct timespec pause = {.tv_nsec = START_WAIT_NS};

    *self = (struct diff_process){.program = program, .dir = "/tmp/pfl-diff.XXXXXX"};
    if (mkdtemp(self->dir) == NULL)
        diff_die("%s: %s", self->dir, strerror(errno));
    name_file(self, "p", self->producer);
    name_file(self, "c", self->consumer);
    self->sockets = (struct diff_sockets){.producer = self->producer, .consumer = self->consumer};
    self->pid = fork();
    if (self->pid == 0)
        become(self);
    for (int i = 0; i < START_TRIES; i++) {
        if (is_listening(self->consumer) && is_listening(self->producer))
            return;
        if (diff_process_end(self) != NULL)
            break;
        (void)nanosleep(&pause, NULL);
    }
    (void)diff_process_stop(self);
    diff_die("%s does not listen", program);
}

const char *diff_process_end(struct diff_process *self)
{
    static char words[32];
    int status;

    if (self->pid <= 0 || waitpid(self->pid, &status, WNOHANG) != self->pid)
        return NULL;
    self->pid = 0;
    (void)snprintf(words, sizeof(words), WIFSIGNALED(status) ? "signal %d" : "exit %d",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return words;
}

static void show_log(const struct diff_process *self)
{
    char path[64], part[4096];
    FILE *file;
    size_t len;

    name_file(self, "log", path);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    while ((len = fread(part, 1, sizeof(part), file)) > 0)
        (void)fwrite(part, 1, len, stderr);
    fclose(file);
}

bool diff_process_stop(struct diff_process *self)
{
    static const char *const files[] = {"p", "c", "log"};
    bool is_well = self->pid > 0;
    char path[64];
    int status;

    if (self->dir[0] == 0)
        return true;
    if (self->pid > 0) {
        kill(self->pid, SIGTERM);
        is_well = waitpid(self->pid, &status, 0) == self->pid &&
                  (WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 0);
    }
    if (!is_well)
        show_log(self);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        name_file(self, files[i], path);
        (void)unlink(path);
    }
    (void)rmdir(self->dir);
    *self = (struct diff_process){0};
    return is_well;
}
