/* SPDX-License-Identifier: Apache-2.0
 *
 * Exit codes with a meaning for halayrun's caller, as shells and ssh use them.
 */
#ifndef HALAY_LAUNCHER_EXIT_CODES_H
#define HALAY_LAUNCHER_EXIT_CODES_H

#include "base/options.h" /* EXIT_USAGE */

enum {
    EXIT_CANNOT_RUN = 126, /* the program is there */
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128, /* and the number of the signal that ended it */
    EXIT_SSH = 255,    /* ssh itself failed, or the program in its place */
};

#endif
