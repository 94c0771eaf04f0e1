/* SPDX-License-Identifier: Apache-2.0
 *
 * Error text: the public question. It is here and not in base/, which programs link as well: they are to get the
 * library's text, not that of a copy of their own.
 */
#include "base/error_text.h"

const struct halay_error *halay_last_error(void)
{
    return halay_error_fields();
}
