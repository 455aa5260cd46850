/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a browser started for a link: see browser.h. BROWSER comes first: who sets it wants it.
 * Without it, xdg-open starts one where there is a display, unless the user came by ssh, whose
 * forwarded display would show a browser of this machine, or is root: no browser should run as
 * root. Failure: a command that does not fit is none. No state.
 */
#include "consumer/open/browser.h"

#include <stdio.h>
#include <string.h>

#include "consumer/text.h"

#define ADDRESS_MAX 64u

static bool is_set(const char *variable)
{
    return variable != NULL && variable[0] != '\0';
}

enum pfl_browser_choice pfl_browser_choose(const struct pfl_browser_env *env)
{
    if (env->is_refused)
        return PFL_BROWSER_NOT_WANTED;
    if (is_set(env->browser))
        return env->is_root ? PFL_BROWSER_START_AS_ROOT : PFL_BROWSER_START;
    if (is_set(env->ssh_connection))
        return PFL_BROWSER_SSH;
    if (env->is_root)
        return PFL_BROWSER_ROOT;
    if (!is_set(env->display) && !is_set(env->wayland_display))
        return PFL_BROWSER_NO_DISPLAY;
    return PFL_BROWSER_START;
}

/* Appends a word; %s in it becomes the link. */
static bool add_word(struct pfl_browser_command *c, size_t *used, size_t *words,
                     struct pfl_span word, const char *link)
{
    const char *text = (const char *)word.data;
    const char *mark = word.len >= 2 ? memmem(text, word.len, "%s", 2) : NULL;
    size_t before = mark != NULL ? (size_t)(mark - text) : word.len;
    size_t after = mark != NULL ? word.len - before - 2 : 0;
    int len;

    if (*words == PFL_BROWSER_MAX_WORDS)
        return false;
    len = snprintf(c->text + *used, sizeof(c->text) - *used, "%.*s%s%.*s", (int)before, text,
                   mark != NULL ? link : "", (int)after, mark != NULL ? mark + 2 : "");
    if (len < 0 || (size_t)len >= sizeof(c->text) - *used)
        return false;
    c->words[(*words)++] = c->text + *used;
    *used += (size_t)len + 1;
    return true;
}

bool pfl_browser_make_command(const struct pfl_browser_env *env, const char *link,
                              struct pfl_browser_command *ret_command)
{
    const char *browser = is_set(env->browser) ? env->browser : "xdg-open";
    size_t left = strcspn(browser, ":");
    bool has_mark = memmem(browser, left, "%s", 2) != NULL;
    size_t used = 0;
    size_t words = 0;

    while (left != 0) {
        size_t len = strcspn(browser, " :");

        if (len != 0 &&
            !add_word(ret_command, &used, &words, pfl_span_of((const uint8_t *)browser, len), link))
            return false;
        len += browser[len] == ' ';
        browser += len;
        left -= len;
    }
    if (words == 0 || (!has_mark && !add_word(ret_command, &used, &words,
                                              pfl_span_of((const uint8_t *)"%s", 2), link)))
        return false;
    ret_command->words[words] = NULL;
    return true;
}

/* SSH_CONNECTION: client's address and port, server's address and port. False: not of that form. */
static bool find_server(const char *connection, char *ret_address)
{
    char address[ADDRESS_MAX];

    if (!is_set(connection) || sscanf(connection, "%*s %*s %63s", address) != 1 ||
        strspn(address, "0123456789abcdefABCDEF.:") != strlen(address))
        return false;
    (void)snprintf(ret_address, ADDRESS_MAX, "%s", address);
    return true;
}

static bool is_account(const char *user)
{
    return is_set(user) && strlen(user) <= 32 && user[0] != '-' &&
           strspn(user, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
               strlen(user);
}

int pfl_browser_add_ssh_hint(const struct pfl_browser_env *env, uint16_t port, struct pfl_buf *out)
{
    char address[ADDRESS_MAX];
    bool has_user = is_account(env->user);

    if (!find_server(env->ssh_connection, address)) {
        (void)snprintf(address, sizeof(address), "THIS-MACHINE");
        has_user = false;
    }
    return pfl_text_add(out, "  ssh -L %u:127.0.0.1:%u %s%s%s\n", (unsigned)port, (unsigned)port,
                        has_user ? env->user : "", has_user ? "@" : "", address);
}
