/* SPDX-License-Identifier: Apache-2.0
 *
 * Error text: one buffer a thread.
 */
#include "base/error_text.h"
#include "base/number_text.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct {
    char text[HALAY_ERROR_TEXT_MAX];
    int is_new;               /* noted, and no call has returned since */
    enum halay_status status; /* that the call with this text returned */
    int is_muted;
} last;

void halay_error_note(const char *text)
{
    if (last.is_muted)
        return;
    snprintf(last.text, sizeof last.text, "%s", text);
    last.is_new = 1;
}

enum halay_status halay_returns(enum halay_status status)
{
    if (status == HALAY_OK || status == HALAY_IN_PROGRESS)
        return status;
    if (last.is_muted)
        return status;
    if (!last.is_new && status != last.status) /* of the same status: a call that this one made has said it */
        halay_error_note(halay_status_string(status));
    last.is_new = 0;
    last.status = status;
    return status;
}

enum halay_status halay_refuses(enum halay_status status, const char *format, ...)
{
    char text[HALAY_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    halay_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    halay_error_note(text);
    return halay_returns(status);
}

int halay_error_mute(int is_muted)
{
    int before = last.is_muted;

    last.is_muted = is_muted;
    return before;
}

int halay_error_is_muted(void)
{
    return last.is_muted;
}

const char *halay_error_noted(void)
{
    return last.text;
}
