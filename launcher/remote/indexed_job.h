/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexed Job: the address of pod 0 in a Job of Kubernetes with completionMode Indexed. Its pods have the host names
 * JOB-0, JOB-1, ..., and with a headless Service, which the pod template names as its subdomain, the domain names
 * JOB-0.SUBDOMAIN.NAMESPACE.svc.CLUSTER-DOMAIN. Kubelet writes a pod's own domain name into its /etc/hosts.
 */
#ifndef HALAY_LAUNCHER_INDEXED_JOB_H
#define HALAY_LAUNCHER_INDEXED_JOB_H

#include <stddef.h>

/* Derives pod 0's domain name from that of pod index, "train-2.train.default.svc.cluster.local". Returns NULL and the
 * name, or what is missing (static): the part of a sentence on how to set it in the manifest. */
const char *indexed_job_first(const char *own_name, int index, char *first, size_t size);

/* As above, for this pod: its domain name is looked up. */
const char *indexed_job_first_of_this(int index, char *first, size_t size);

#endif
