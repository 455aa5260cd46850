/* SPDX-License-Identifier: Apache-2.0 */
/* Reports readiness as Perfetto's service does (a byte on a descriptor) and to systemd
 * (base/notify.h). Nothing is retried. */
#include "service/port/readiness.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"

static void tell_descriptor(const char *number)
{
    char *end;
    long fd = strtol(number, &end, 10);

    if (*number == '\0' || *end != '\0' || fd < 0 || fd > 1 << 20) {
        pfl_log_warn("readiness-notify-failed", "was=readiness-not-told TRACED_NOTIFY_FD=%s",
                     pfl_log_quote_str(number));
        return;
    }
    if (write((int)fd, "1", 1) != 1)
        pfl_log_warn("readiness-notify-failed", "was=readiness-not-told fd=%ld errno=%d", fd,
                     errno);
    (void)close((int)fd);
}

void pfl_readiness_open(void)
{
    pfl_notify_open();
}

void pfl_readiness_tell(void)
{
    const char *fd = getenv("TRACED_NOTIFY_FD");

    if (fd != NULL)
        tell_descriptor(fd);
    pfl_notify_send("READY=1");
}
