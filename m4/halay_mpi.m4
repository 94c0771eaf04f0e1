dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl HALAY_FIND_MPI(NAME, WRAPPERS, PKG-CONFIG MODULES)
dnl
dnl For HALAY_WITH([NAME]): finds the compiler wrapper of an MPI and asks it for its flags. DIR of --with-NAME=DIR may
dnl be     a wrapper itself                       /usr/bin/mpicc.mpich
dnl     where an MPI was installed to          /opt/openmpi           (with bin/mpicc)
dnl     the folder that Debian gives an MPI    /usr/lib/.../mpich     (its wrapper is mpicc.mpich)
dnl Without DIR the wrappers are looked for in PATH. Open MPI's wrapper tells its flags by --showme:..., those of MPICH
dnl and its kin by -show. Without a wrapper pkg-config is asked.
AC_DEFUN([HALAY_FIND_MPI], [
halay_mpicc=
AS_IF([test -z "$halay_dir"],
    [AC_PATH_PROGS([halay_found_$1_mpicc], [$2])
     halay_mpicc=$halay_found_$1_mpicc],
    [halay_mpi_name=`basename "$halay_dir"`
     for halay_try in "$halay_dir" "$halay_dir/bin/mpicc" "$halay_dir/mpicc" "$halay_dir/bin/mpiicc" \
             "`command -v mpicc.$halay_mpi_name 2>/dev/null`"; do
         AS_IF([test -z "$halay_mpicc" && test -f "$halay_try" && test -x "$halay_try"], [halay_mpicc=$halay_try])
     done])
halay_mpi_cflags= halay_mpi_libs= halay_mpi_asked=no
AS_IF([test -n "$halay_mpicc"], [
    AS_IF([halay_mpi_cflags=`"$halay_mpicc" --showme:compile 2>/dev/null` &&
           halay_mpi_libs=`"$halay_mpicc" --showme:link 2>/dev/null`],
        [halay_mpi_asked=yes],
        [halay_mpi_show=`"$halay_mpicc" -show 2>/dev/null` && halay_mpi_asked=yes
         halay_mpi_cflags= halay_mpi_libs=
         for halay_word in $halay_mpi_show; do
             AS_CASE([$halay_word],
                 [-I*|-D*], [halay_mpi_cflags="$halay_mpi_cflags $halay_word"],
                 [-L*|-l*|-Wl,*], [halay_mpi_libs="$halay_mpi_libs $halay_word"])
         done])])
AS_IF([test $halay_mpi_asked = no && test -z "$halay_dir"], [
    for halay_try in $3; do
        AS_IF([test $halay_mpi_asked = no && $PKG_CONFIG --exists $halay_try 2>/dev/null],
            [halay_mpi_cflags=`$PKG_CONFIG --cflags $halay_try` halay_mpi_libs=`$PKG_CONFIG --libs $halay_try`
             halay_mpi_asked=yes])
    done])
AC_MSG_CHECKING([for $1])
AS_IF([test $halay_mpi_asked = yes], [
    halay_saved_cppflags=$CPPFLAGS halay_saved_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $halay_mpi_cflags" LIBS="$halay_mpi_libs $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
]], [[int level; return MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &level);]])], [halay_found=yes])
    CPPFLAGS=$halay_saved_cppflags LIBS=$halay_saved_libs])
m4_toupper([$1])_CFLAGS=$halay_mpi_cflags m4_toupper([$1])_LIBS=$halay_mpi_libs
AC_MSG_RESULT([$halay_found${halay_mpicc:+ ($halay_mpicc)}])
])

dnl HALAY_FIND_MPICH
dnl
dnl For HALAY_WITH([mpich]): MPICH or its kin beside another MPI, which --with-mpi found. If that is this one already,
dnl there is no second one to be found.
AC_DEFUN([HALAY_FIND_MPICH], [
HALAY_FIND_MPI([mpich], [mpicc.mpich], [mpich])
AS_IF([test "x$halay_found" = xyes], [
    halay_saved_cppflags=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
    AC_MSG_CHECKING([whether it is another than the first MPI])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#ifdef MPICH_VERSION
#error the first one is of this kind
#endif
]], [])], [], [halay_found=no])
    CPPFLAGS=$halay_saved_cppflags
    AC_MSG_RESULT([$halay_found])])
])
