dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl HALAY_WITH(NAME, HELP, FIND)
dnl
dnl Adds --with-NAME[=DIR]. FIND is run with $halay_dir set to DIR ("" if none was given) and sets halay_found to yes or
dnl no, and NAME_CFLAGS, NAME_LIBS. Not asked for: used if found. Asked for and missing: an error. Sets with_NAME to yes
dnl or no, halay_NAME_summary to what the summary says, the conditional HAVE_NAME, and HALAY_HAVE_NAME to 1 or 0.
AC_DEFUN([HALAY_WITH], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$2 (default: used if found)])], [], [with_$1=auto])
AS_CASE([$with_$1],
    [yes|no|auto], [halay_dir=],
    [halay_dir=$with_$1; with_$1=yes])
halay_found=no
AS_IF([test "x$with_$1" != xno], [$3])
AS_IF([test "x$with_$1" = xyes && test "x$halay_found" = xno],
    [AC_MSG_ERROR([--with-$1 was given but $1 was not found; see config.log, or give its place: --with-$1=DIR])])
AS_CASE([$with_$1$halay_found],
    [no*], [halay_$1_summary="no (switched off)"],
    [*yes], [halay_$1_summary="yes"],
    [halay_$1_summary="no (not found)"])
with_$1=$halay_found
AM_CONDITIONAL(m4_toupper([HAVE_$1]), [test "x$with_$1" = xyes])
AC_DEFINE_UNQUOTED(m4_toupper([HALAY_HAVE_$1]), [`test "x$with_$1" = xyes && echo 1 || echo 0`], [$2])
AC_SUBST(m4_toupper([$1_CFLAGS]))
AC_SUBST(m4_toupper([$1_LIBS]))
])

dnl HALAY_FIND(NAME, PKG-CONFIG MODULE, HEADER, FUNCTION, LIBRARIES)
dnl
dnl The usual way to find a library: in $halay_dir if given (its include/HEADER must be there), else by pkg-config, else
dnl where the compiler looks.
AC_DEFUN([HALAY_FIND], [
halay_$1_cflags= halay_$1_libs="$5"
AS_IF([test -n "$halay_dir"],
    [halay_$1_cflags="-I$halay_dir/include" halay_$1_libs="-L$halay_dir/lib -Wl,-rpath,$halay_dir/lib $5"],
    [test -n "$2" && $PKG_CONFIG --exists "$2" 2>/dev/null],
    [halay_$1_cflags=`$PKG_CONFIG --cflags "$2"` halay_$1_libs=`$PKG_CONFIG --libs "$2"`])
halay_saved_cppflags=$CPPFLAGS halay_saved_libs=$LIBS
CPPFLAGS="$CPPFLAGS $halay_$1_cflags" LIBS="$halay_$1_libs $LIBS"
AC_MSG_CHECKING([for $1 ($3, $4)])
AS_IF([test -z "$halay_dir" || test -f "$halay_dir/include/$3"],
    [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$3>]], [[return (int)(long)(void *)$4;]])], [halay_found=yes])])
AC_MSG_RESULT([$halay_found])
CPPFLAGS=$halay_saved_cppflags LIBS=$halay_saved_libs
AS_IF([test "x$halay_found" = xyes],
    [m4_toupper([$1_CFLAGS])=$halay_$1_cflags m4_toupper([$1_LIBS])=$halay_$1_libs])
])
