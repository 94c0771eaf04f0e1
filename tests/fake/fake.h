/* SPDX-License-Identifier: Apache-2.0
 *
 * Fake transport: ranks as threads of one process, for tests. It moves messages and shares memory like the real ones,
 * slowly and strictly, and can delay, drop and kill.
 *
 * A hub is the job: made once for all ranks, which then each open a transport (and a bootstrap, if they want one), in
 * their own threads, once a hub. Everything is done under locks, so that what ThreadSanitizer finds is a fault of those
 * who use it: flags in shared areas without release and acquire, buffers touched too early.
 */
#ifndef HALAY_TEST_FAKE_H
#define HALAY_TEST_FAKE_H

#include "base/machine/topology.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/shared_memory.h"
#include <stdint.h>

struct halay_fake_hub;
struct halay_world; /* collectives/group/world.h */

enum halay_status halay_fake_hub_create(int size, struct halay_fake_hub **out);
void halay_fake_hub_destroy(struct halay_fake_hub *hub); /* all have closed; NULL is allowed */
int halay_fake_hub_size(const struct halay_fake_hub *hub);

/* ---- before the ranks open ---- */

/* Do the ranks share memory? They do unless this says no. */
void halay_fake_hub_set_shared(struct halay_fake_hub *hub, int is_shared);
/* The ranks are on these nodes ([rank]; numbered from 0 in order of their lowest rank), and share memory inside them
 * only: a matter of the world that opens the hub (world.c). Copied. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_fake_hub_set_nodes(struct halay_fake_hub *hub, const int *node);
/* Deliver messages of different peers and tags in random order and late, copy some at once and some only when they are
 * received. 0: deliver in order, copy when received (the default). */
void halay_fake_hub_set_delay(struct halay_fake_hub *hub, uint64_t seed);

/* NULL if they are all on one. */
const int *halay_fake_hub_nodes(const struct halay_fake_hub *hub);

/* ---- any thread, any time ---- */

/* The rank dies: every rank, itself included (its thread has to find the way out), gets HALAY_ERR_PEER and its number.
 * The first one that is killed is kept. */
void halay_fake_hub_kill(struct halay_fake_hub *hub, int rank);
/* Messages from one rank to the other are lost from now on: sent, and never received. */
void halay_fake_hub_drop(struct halay_fake_hub *hub, int from, int to);
/* Messages from one rank to the other are kept back until further notice (is_held), or arrive again; order is kept. */
void halay_fake_hub_hold(struct halay_fake_hub *hub, int from, int to, int is_held);
/* Nonzero if the rank has closed its transport. */
int halay_fake_hub_has_left(struct halay_fake_hub *hub, int rank);
/* The rank that was killed, or -1. */
int halay_fake_hub_killed(struct halay_fake_hub *hub);

/* The machine's topology, found out once a hub. */
enum halay_status halay_fake_hub_topology(struct halay_fake_hub *hub, struct halay_log *log,
                                          struct halay_topology *topology);

/* ---- one rank: one call a thread ---- */

/* log and bell are borrowed until close. */
enum halay_status halay_fake_open(struct halay_fake_hub *hub, int rank, struct halay_log *log, struct halay_bell *bell,
                                  struct halay_link **out);
enum halay_status halay_fake_boot_create(struct halay_fake_hub *hub, int rank, struct halay_log *log,
                                         struct halay_boot **out);
/* The world of one rank, with both of these. Its configuration is the environment's. */
enum halay_status halay_world_open_fake(struct halay_fake_hub *hub, int rank, struct halay_world **out);

#endif
