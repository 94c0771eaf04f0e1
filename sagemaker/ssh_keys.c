/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys for ssh: two pairs, told apart by a label.
 */
#include "sagemaker/ssh_keys.h"
#include "base/secure/ssh_key.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct pair {
    const char *label;        /* 8 bytes */
    const char *private_name; /* of its file */
    const char *public_name;
    const char *host_pattern; /* before the public key */
};

/* For the owner's eyes only, in place of an older one. */
static int write_key_file(const char *folder, const char *name, const char *before, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int ok = fd >= 0 && dprintf(fd, "%s%s", before, text) >= 0;
    if (!ok)
        report("cannot write '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

static int write_pair(const unsigned char secret[HALAY_SECRET_BYTES], const char *folder, const struct pair *pair)
{
    char private_text[HALAY_SSH_PRIVATE_BYTES], public_text[HALAY_SSH_PUBLIC_BYTES + 1];

    if (halay_ssh_key(secret, pair->label, private_text, public_text) != HALAY_OK) {
        report("cannot make keys for ssh: libsodium cannot be initialised");
        return 0;
    }
    strcat(public_text, "\n");
    int ok = write_key_file(folder, pair->private_name, "", private_text) &&
             write_key_file(folder, pair->public_name, pair->host_pattern, public_text);
    explicit_bzero(private_text, sizeof private_text);
    return ok;
}

int sagemaker_write_ssh_keys(const struct sagemaker_cluster *cluster, const char *folder)
{
    static const struct pair login = { "login---", "id_ed25519", "authorized_keys", "" },
                             host = { "host----", "host_ed25519", "known_hosts", "* " };

    if (!write_pair(cluster->secret, folder, &login) || !write_pair(cluster->secret, folder, &host))
        return 1;
    sagemaker_cluster_warn(cluster);
    return 0;
}
