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

/* Refuses groups with the same number of members that differ. */
static enum halay_status disagree_about_members(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                                int other)
{
    char text[HALAY_TEXT_MAX], theirs[256], ours[256], subject[HALAY_SUBJECT_MAX];

    halay_coordinator_subject(c, entry, subject, sizeof subject);
    halay_members_difference(
        halay_tensor_entry_payload(entry, other, halay_tensor_entry_signature(entry, other)->payload_count),
        halay_tensor_entry_payload(entry, 0, halay_tensor_entry_signature(entry, 0)->payload_count),
        halay_tensor_entry_signature(entry, 0)->members, theirs, ours, sizeof theirs);
    snprintf(text, sizeof text, "%s: rank %d has %s, rank %d has %s", subject, halay_coordinator_rank(c, other), theirs,
             halay_coordinator_rank(c, 0), ours);
    return halay_coordinator_refuse(c, entry, HALAY_ERR_MISMATCH, text);
}

/* Refuses reduce-scatters whose splits differ. */
static enum halay_status disagree_about_splits(struct halay_coordinator *c, struct halay_tensor_entry *entry, int other)
{
    char text[HALAY_TEXT_MAX], subject[HALAY_SUBJECT_MAX];
    size_t count = halay_tensor_entry_signature(entry, 0)->payload_count, part = 0;
    const uint64_t *theirs = halay_tensor_entry_payload(entry, other, count),
                   *ours = halay_tensor_entry_payload(entry, 0, count);

    while (part + 1 < count && theirs[part] == ours[part])
        part++;
    halay_coordinator_subject(c, entry, subject, sizeof subject);
    snprintf(text, sizeof text, "%s: rank %d has %llu rows for rank %d in its splits, rank %d has %llu", subject,
             halay_coordinator_rank(c, other), (unsigned long long)theirs[part], halay_coordinator_rank(c, (int)part),
             halay_coordinator_rank(c, 0), (unsigned long long)ours[part]);
    return halay_coordinator_refuse(c, entry, HALAY_ERR_MISMATCH, text);
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

/* Refuses equal signatures whose payloads differ. */
static enum halay_status refuse_payloads(struct halay_coordinator *c, struct halay_tensor_entry *entry, int other)
{
    if (entry->is_change)
        return disagree_about_sets(c, entry, other);
    return halay_tensor_entry_signature(entry, 0)->members ? disagree_about_members(c, entry, other)
                                                           : disagree_about_splits(c, entry, other);
}

static enum halay_status disagree_about_signatures(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                                   int other)
{
    char text[HALAY_TEXT_MAX], theirs[208], ours[208], subject[HALAY_SUBJECT_MAX];
    struct halay_rank_text ranks = { .count = 0 };
    const struct halay_signature *zero = halay_tensor_entry_signature(entry, 0),
                                 *first = halay_tensor_entry_signature(entry, other);

    if (entry->is_change)
        return disagree_about_sets(c, entry, other);
    if (!halay_signature_difference(first, zero, theirs, ours, sizeof theirs))
        return disagree_about_members(c, entry, other);
    for (int r = other; r < c->options.size; r++)
        if (halay_signature_equal(halay_tensor_entry_signature(entry, r), first))
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

/* Returns the first rank whose payload differs from rank 0's where it must be equal, or 0. */
static int find_other_payload(const struct halay_coordinator *c, const struct halay_tensor_entry *entry)
{
    const struct halay_signature *zero = halay_tensor_entry_signature(entry, 0);

    for (int r = 1; zero->payload_count && r < c->options.size; r++)
        if (memcmp(halay_tensor_entry_payload(entry, r, zero->payload_count),
                   halay_tensor_entry_payload(entry, 0, zero->payload_count),
                   zero->payload_count * sizeof *entry->payload.at))
            return r;
    return 0;
}

enum halay_status halay_coordinator_agree(struct halay_coordinator *c, struct halay_tensor_entry *entry, int *agreed)
{
    *agreed = 0;
    for (int r = 1; entry->different && r < c->options.size; r++)
        if (!halay_signature_equal(halay_tensor_entry_signature(entry, r), halay_tensor_entry_signature(entry, 0)))
            return disagree_about_signatures(c, entry, r);
    int other = entry->different ? find_other_payload(c, entry) : 0;
    if (other)
        return refuse_payloads(c, entry, other);
    if (entry->different) {
        size_t fresh = c->fresh.count;
        enum halay_status status = take_over(c, entry);
        if (c->fresh.count == fresh)
            return status;
    }
    *agreed = 1;
    return HALAY_OK;
}
