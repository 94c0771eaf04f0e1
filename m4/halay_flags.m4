dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl HALAY_FLAGS(VARIABLE, FLAGS, [OTHERWISE])
dnl
dnl Adds FLAGS to VARIABLE if a program compiles and links with them without a warning; runs OTHERWISE if not.
AC_DEFUN([HALAY_FLAGS], [
AC_MSG_CHECKING([for $2])
halay_saved_cflags=$CFLAGS CFLAGS="$CFLAGS $2 -Werror"
AC_LINK_IFELSE([AC_LANG_SOURCE([[#include <string.h>
int main(void) { return 0; }]])],
    [CFLAGS=$halay_saved_cflags; $1="$$1 $2"; AC_MSG_RESULT([yes])],
    [CFLAGS=$halay_saved_cflags; AC_MSG_RESULT([no])
$3])
])
