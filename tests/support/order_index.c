/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders in a collector's index, as an operator's request would change them:
 *
 *     order_index INDEX put ORDERER <order.pbtx
 *     order_index INDEX rm|pause|resume|states ORDERER NAME
 *
 * `states` prints a line for each host: HOST STATE GENERATION WHY. Exit status 1: refused, with the
 * reason on stderr.
 */
#include <stdio.h>
#include <string.h>

#include "collector/index/index.h"
#include "perfleet/spool.pb-c.h"
#include "proto/order/order.h"
#include "proto/unpack.h"

#define MAX_BYTES (1u << 20)

static int put(struct pfl_index *index, const char *orderer)
{
    static char text[MAX_BYTES];
    size_t len = fread(text, 1, sizeof(text), stdin);
    char why[PFL_ORDER_WHY_BYTES] = "";
    Perfleet__Order *order;
    uint32_t generation = 0;
    int rc = pfl_order_parse(pfl_span_of(text, len), PFL_ORDER_PLAIN, &order, why);

    if (rc != 0) {
        (void)fprintf(stderr, "%s\n", why);
        return rc;
    }
    rc = pfl_index_put_order(index, orderer, order, &generation);
    pfl_proto_free(&order->base);
    if (rc == 0)
        (void)printf("generation %u\n", (unsigned)generation);
    return rc;
}

static bool on_state(void *user, const struct pfl_index_host_state *state)
{
    ProtobufCMessage *message;
    const Perfleet__HostOrderState *s;
    const ProtobufCEnumValue *name;

    (void)user;
    if (pfl_proto_unpack(&perfleet__host_order_state__descriptor, state->state, &message) != 0)
        return false;
    s = (const Perfleet__HostOrderState *)message;
    name = protobuf_c_enum_descriptor_get_value(&perfleet__host_order_state__state__descriptor,
                                                (int)s->state);
    (void)printf("%s %s %u %s\n", state->host, name != NULL ? name->name : "?",
                 (unsigned)s->generation, s->why != NULL ? s->why : "");
    pfl_proto_free(message);
    return true;
}

static int list_states(struct pfl_index *index, const char *orderer, const char *name)
{
    const struct pfl_index_host_state_query query = {
        .orderer = orderer, .name = name, .after_host = "", .limit = PFL_INDEX_LIMIT_MAX};

    return pfl_index_list_host_states(index, &query, on_state, NULL);
}

static int run(struct pfl_index *index, const char *what, const char *orderer, const char *name)
{
    if (strcmp(what, "put") == 0)
        return put(index, orderer);
    if (name == NULL)
        return PFL_EINVAL;
    if (strcmp(what, "rm") == 0)
        return pfl_index_remove_order(index, orderer, name);
    if (strcmp(what, "pause") == 0)
        return pfl_index_pause_order(index, orderer, name, true);
    if (strcmp(what, "resume") == 0)
        return pfl_index_pause_order(index, orderer, name, false);
    if (strcmp(what, "states") == 0)
        return list_states(index, orderer, name);
    return PFL_EINVAL;
}

int main(int argc, char **argv)
{
    struct pfl_index_conf conf = {.where = argc > 1 ? argv[1] : "", .may_create = true};
    char why[PFL_INDEX_WHY_BYTES] = "";
    struct pfl_index *index = NULL;
    int rc;

    if (argc < 4) {
        (void)fprintf(stderr, "order_index INDEX put|rm|pause|resume|states ORDERER [NAME]\n");
        return 2;
    }
    rc = pfl_index_open(&conf, why, &index);
    if (rc == 0)
        rc = run(index, argv[2], argv[3], argc > 4 ? argv[4] : NULL);
    if (rc != 0)
        (void)fprintf(stderr, "%s\n", index != NULL ? pfl_index_get_error(index) : why);
    pfl_index_close(index);
    return rc != 0;
}
