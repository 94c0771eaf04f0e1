dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl HALAY_FIND_MPI
dnl
dnl For HALAY_WITH([mpi]): finds the compiler wrapper of an MPI and asks it for its flags. DIR of --with-mpi=DIR may be
dnl     a wrapper itself                       /usr/bin/mpicc.mpich
dnl     where an MPI was installed to          /opt/openmpi           (with bin/mpicc)
dnl     the folder that Debian gives an MPI    /usr/lib/.../mpich     (its wrapper is mpicc.mpich)
dnl Open MPI's wrapper tells its flags by --showme:..., those of MPICH and its kin by -show. Without a wrapper pkg-config
dnl is asked for ompi-c and mpich.
AC_DEFUN([HALAY_FIND_MPI], [
halay_mpicc=
AS_IF([test -z "$halay_dir"],
    [AC_PATH_PROGS([halay_found_mpicc], [mpicc mpicc.openmpi mpicc.mpich mpiicc])
     halay_mpicc=$halay_found_mpicc],
    [halay_mpi_name=`basename "$halay_dir"`
     for halay_try in "$halay_dir" "$halay_dir/bin/mpicc" "$halay_dir/mpicc" "$halay_dir/bin/mpiicc" \
             "`command -v mpicc.$halay_mpi_name 2>/dev/null`"; do
         AS_IF([test -z "$halay_mpicc" && test -f "$halay_try" && test -x "$halay_try"], [halay_mpicc=$halay_try])
     done])
MPI_CFLAGS= MPI_LIBS= halay_mpi_asked=no
AS_IF([test -n "$halay_mpicc"], [
    AS_IF([MPI_CFLAGS=`"$halay_mpicc" --showme:compile 2>/dev/null` && MPI_LIBS=`"$halay_mpicc" --showme:link 2>/dev/null`],
        [halay_mpi_asked=yes],
        [halay_mpi_show=`"$halay_mpicc" -show 2>/dev/null` && halay_mpi_asked=yes
         MPI_CFLAGS= MPI_LIBS=
         for halay_word in $halay_mpi_show; do
             AS_CASE([$halay_word],
                 [-I*|-D*], [MPI_CFLAGS="$MPI_CFLAGS $halay_word"],
                 [-L*|-l*|-Wl,*], [MPI_LIBS="$MPI_LIBS $halay_word"])
         done])])
AS_IF([test $halay_mpi_asked = no && test -z "$halay_dir"], [
    for halay_try in ompi-c mpich; do
        AS_IF([test $halay_mpi_asked = no && $PKG_CONFIG --exists $halay_try 2>/dev/null],
            [MPI_CFLAGS=`$PKG_CONFIG --cflags $halay_try` MPI_LIBS=`$PKG_CONFIG --libs $halay_try` halay_mpi_asked=yes])
    done])
AC_MSG_CHECKING([for MPI])
AS_IF([test $halay_mpi_asked = yes], [
    halay_saved_cppflags=$CPPFLAGS halay_saved_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $MPI_CFLAGS" LIBS="$MPI_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <mpi.h>
#if MPI_VERSION < 3
#error "MPI 3 is needed"
#endif
]], [[int level; return MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &level);]])], [halay_found=yes])
    CPPFLAGS=$halay_saved_cppflags LIBS=$halay_saved_libs])
AC_MSG_RESULT([$halay_found${halay_mpicc:+ ($halay_mpicc)}])
])
