/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement: compares what all ranks have sent for a name. If it is equal, it is agreed from now on; if not, a text
 * names the tensor, the ranks and both values.
 */
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/protocol/members.h"
#include "fusion/protocol/set_change.h"
#include "fusion/protocol/signature.h"
#include <stdio.h>
#include <string.h>

enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                           enum halay_status why, const char *text)
{
    if (!entry->is_change) /* the callers get the error, on every rank */
        halay_log_write(c->options.log, halay_log_reported_level(c->options.log), "%s", text);
    enum halay_status status = halay_coordinator_emit_error(c, -1, entry, why, text);
    halay_coordinator_reset_entry(c, entry);
    return status;
}

static enum halay_status disagree_about_sets(struct halay_coordinator *c, struct halay_tensor_entry *entry, int other)
{
    char text[HALAY_TEXT_MAX], theirs[400], ours[400];
    const struct halay_signature *zero = halay_tensor_entry_signature(entry, 0),
                                 *first = halay_tensor_entry_signature(entry, other);
    int lowest = 0; /* ranks that are not asked count as agreeing with it */

    while (entry->outside && entry->outside[lowest])
        lowest++;
    halay_set_change_print(halay_tensor_entry_payload(entry, other, first->payload_count), first->payload_count, theirs,
                           sizeof theirs);
    halay_set_change_print(halay_tensor_entry_payload(entry, 0, zero->payload_count), zero->payload_count, ours,
                           sizeof ours);
    snprintf(text, sizeof text, "process sets: rank %d %s, rank %d %s", other, theirs, lowest, ours);
    return halay_coordinator_refuse(c, entry, HALAY_ERR_MISMATCH, text);
}

/* Prints the first difference between two payloads of equal signatures, as halay_signature_difference. */
static void print_payloads(const struct halay_coordinator *c, const struct halay_signature *s, const uint64_t *a,
                           const uint64_t *b, char *a_text, char *b_text, size_t size)
{
    size_t part = 0;

    if (halay_members_difference(a, b, s->members, a_text, b_text, size))
        return;
    while (part + 1 < s->payload_count && a[part] == b[part])
        part++;
    snprintf(a_text, size, "%llu rows for rank %d in its splits", (unsigned long long)a[part],
             halay_coordinator_rank(c, (int)part));
    snprintf(b_text, size, "%llu", (unsigned long long)b[part]);
}

/* Returns nonzero if two ranks have sent the same for the name. */
static int are_equal(const struct halay_tensor_entry *entry, int a, int b)
{
    const struct halay_signature *x = halay_tensor_entry_signature(entry, a),
                                 *y = halay_tensor_entry_signature(entry, b);
    size_t count = x->payload_count;

    return halay_signature_equal(x, y) &&
           (!count || !memcmp(halay_tensor_entry_payload(entry, a, count), halay_tensor_entry_payload(entry, b, count),
                              count * sizeof *entry->payload.at));
}

/* Refuses a tensor that `other` is the first rank to have otherwise than rank 0. */
static enum halay_status refuse_difference(struct halay_coordinator *c, struct halay_tensor_entry *entry, int other)
{
    char text[HALAY_TEXT_MAX], theirs[208], ours[208], subject[HALAY_SUBJECT_MAX];
    struct halay_rank_text ranks = { .count = 0 };
    const struct halay_signature *zero = halay_tensor_entry_signature(entry, 0),
                                 *first = halay_tensor_entry_signature(entry, other);

    if (entry->is_change)
        return disagree_about_sets(c, entry, other);
    if (!halay_signature_difference(first, zero, theirs, ours, sizeof theirs))
        print_payloads(c, zero, halay_tensor_entry_payload(entry, other, first->payload_count),
                       halay_tensor_entry_payload(entry, 0, zero->payload_count), theirs, ours, sizeof theirs);
    for (int r = other; r < c->options.size; r++)
        if (are_equal(entry, r, other))
            halay_rank_text_add(&ranks, halay_coordinator_rank(c, r));
    halay_coordinator_subject(c, entry, subject, sizeof subject);
    snprintf(text, sizeof text, "%s: %s %s %s, rank %d has %s", subject, ranks.text, ranks.count > 1 ? "have" : "has",
             theirs, halay_coordinator_rank(c, 0), ours);
    return halay_coordinator_refuse(c, entry, HALAY_ERR_MISMATCH, text);
}

/* Makes what all ranks have sent the agreement. */
static enum halay_status take_over(struct halay_coordinator *c, struct halay_tensor_entry *entry)
{
    const struct halay_signature *signature = halay_tensor_entry_signature(entry, 0);
    size_t says = halay_signature_sent_count(signature, c->options.size), all = says * (size_t)c->options.size;
    size_t heard = signature->payload_count ? says : all;
    char text[HALAY_SUBJECT_MAX + 64], subject[HALAY_SUBJECT_MAX];

    if (halay_payload_resize(&c->column, all) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; says && r < c->options.size; r++)
        memcpy(c->column.at + (size_t)r * says, halay_tensor_entry_payload(entry, r, says),
               says * sizeof *c->column.at);
    if (!halay_signature_fits(signature, c->column.at, heard)) {
        halay_coordinator_subject(c, entry, subject, sizeof subject);
        snprintf(text, sizeof text, "%s: all ranks' rows together are more than fits in memory", subject);
        return halay_coordinator_refuse(c, entry, HALAY_ERR_ARGUMENT, text);
    }
    enum halay_status status = entry->is_join ? halay_payload_set(&entry->payload, &c->last_joined, 1)
                                              : halay_payload_set(&entry->payload, c->column.at, all);
    if (status != HALAY_OK)
        return status;
    entry->agreed = *signature;
    /* Frees a new name's announcements: most names are announced only once. A name whose rows change is announced
     * again, and keeps its memory. */
    if (entry->id == (uint32_t)HALAY_NO_ID) {
        memset(entry->state, HALAY_ENTRY_READY, (size_t)c->options.size);
        halay_tensor_entry_free_announced(entry, c->options.size);
    }
    halay_coordinator_note(c);
    return halay_tensor_entry_push(&c->fresh, entry);
}

enum halay_status halay_coordinator_agree(struct halay_coordinator *c, struct halay_tensor_entry *entry, int *agreed)
{
    *agreed = 0;
    for (int r = 1; entry->different && r < c->options.size; r++)
        if (!are_equal(entry, r, 0))
            return refuse_difference(c, entry, r);
    if (entry->different) {
        size_t fresh = c->fresh.count;
        enum halay_status status = take_over(c, entry);
        if (c->fresh.count == fresh)
            return status;
    }
    *agreed = 1;
    return HALAY_OK;
}
