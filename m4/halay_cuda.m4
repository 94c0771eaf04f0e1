dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl HALAY_FIND_CUDA: what HALAY_WITH calls: NVCC. HALAY_CUDA_MODULE: what libhalay-tft-cuda.so is linked with: sets
dnl halay_cuda_module, CUDA_CFLAGS, CUDA_LIBS and the conditional CUDA_MODULE. The runtime and cuBLASLt lie beside the
dnl compiler, and only their newest names where they came from PyPI.
AC_DEFUN([HALAY_FIND_CUDA], [
    AC_PATH_PROGS([NVCC], [nvcc], [],
        [${halay_dir:+$halay_dir/bin$PATH_SEPARATOR}$PATH$PATH_SEPARATOR/usr/local/cuda/bin])
    AS_IF([test -n "$NVCC"], [halay_found=yes])
])

AC_DEFUN([HALAY_CUDA_MODULE], [
halay_cuda_module=no
AS_IF([test "x$with_cuda" = xyes], [
    halay_cuda_home=`readlink -f "$NVCC"`
    halay_cuda_home=`dirname "$halay_cuda_home"`
    halay_cuda_home=`dirname "$halay_cuda_home"`
    CUDA_CFLAGS="-isystem $halay_cuda_home/include"
    halay_saved_cppflags=$CPPFLAGS halay_saved_libs=$LIBS
    AC_MSG_CHECKING([for cuBLASLt and CUDA's runtime in $halay_cuda_home])
    for halay_cuda_names in '-lcublasLt -lcudart' '-l:libcublasLt.so.13 -l:libcudart.so.13' \
        '-l:libcublasLt.so.12 -l:libcudart.so.12'; do
        for halay_cuda_folder in lib64 lib; do
            AS_IF([test $halay_cuda_module = no], [
                CUDA_LIBS="-L$halay_cuda_home/$halay_cuda_folder $halay_cuda_names"
                AS_IF([test -n "$halay_dir"],
                    [CUDA_LIBS="-Wl,-rpath,$halay_cuda_home/$halay_cuda_folder $CUDA_LIBS"])
                CPPFLAGS="$halay_saved_cppflags $CUDA_CFLAGS" LIBS="$CUDA_LIBS $halay_saved_libs"
                AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cublasLt.h>
#include <cuda_runtime_api.h>]], [[return (int)cublasLtGetVersion() + cudaGetDevice(NULL);]])],
                    [halay_cuda_module=yes])])
        done
    done
    CPPFLAGS=$halay_saved_cppflags LIBS=$halay_saved_libs
    AC_MSG_RESULT([$halay_cuda_module])])
AM_CONDITIONAL([CUDA_MODULE], [test "x$halay_cuda_module" = xyes])
])

dnl HALAY_EMULATES_CUDA: whether tests can run CUDA's kernels on this processor (tests/cuda/README.md), which needs what
dnl GCC calls before accesses to memory and a switch of stacks that is written for x86-64. Sets halay_emulates_cuda and
dnl the conditional EMULATES_CUDA.
AC_DEFUN([HALAY_EMULATES_CUDA], [
AC_CACHE_CHECK([whether tests can emulate CUDA], [halay_cv_emulates_cuda], [
halay_cv_emulates_cuda=no
cat >conftest.cc <<'SOURCE'
#if !defined __x86_64__ || !defined __linux__ || __cplusplus < 201703L
#error
#endif
int f(volatile int *p) { return *p; }
SOURCE
AS_IF([$CXX -std=c++17 -O1 -fsanitize=thread,bounds,alignment --param tsan-distinguish-volatile=1 \
        -S conftest.cc -o conftest.s 2>&AS_MESSAGE_LOG_FD && grep __tsan_volatile_read4 conftest.s >/dev/null],
    [halay_cv_emulates_cuda=yes])
rm -f conftest.cc conftest.s])
halay_emulates_cuda=$halay_cv_emulates_cuda
AM_CONDITIONAL([EMULATES_CUDA], [test "x$halay_emulates_cuda" = xyes])
])

dnl HALAY_FIND_CUDART: whether the module for devices (libhalay-cuda.so) can be built: CUDA's runtime, header and
dnl library, beside $NVCC or where the compiler looks. The static library comes first: the module then needs only the
dnl driver, whatever CUDA a program brings. Sets CUDART_CFLAGS, CUDART_LIBS, halay_cudart and the conditional
dnl HAVE_CUDART.
AC_DEFUN([HALAY_FIND_CUDART], [
halay_cudart=no
AS_IF([test "x$with_cuda" = xyes], [
    halay_cuda_root=`readlink -f "$NVCC"`
    halay_cuda_root=`dirname "$halay_cuda_root"`
    halay_cuda_root=`dirname "$halay_cuda_root"`
    AS_IF([test -f "$halay_cuda_root/include/cuda_runtime_api.h"], [CUDART_CFLAGS="-isystem $halay_cuda_root/include"])
    halay_saved_cppflags=$CPPFLAGS halay_saved_libs=$LIBS
    AC_MSG_CHECKING([for CUDA's runtime (cuda_runtime_api.h, cudaGetDeviceCount)])
    for halay_cuda_lib in "$halay_cuda_root/lib64" "$halay_cuda_root/lib" \
        "$halay_cuda_root/targets/x86_64-linux/lib" ""; do
        for halay_cudart_name in -l:libcudart_static.a -lcudart; do
            AS_IF([test "x$halay_cudart" = xno], [
                CUDART_LIBS="${halay_cuda_lib:+-L$halay_cuda_lib} $halay_cudart_name -ldl -lrt -lpthread"
                CPPFLAGS="$halay_saved_cppflags $CUDART_CFLAGS" LIBS="$CUDART_LIBS $halay_saved_libs"
                AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]],
                    [[int n; return cudaGetDeviceCount(&n);]])], [halay_cudart=yes])])
        done
    done
    AC_MSG_RESULT([$halay_cudart])
    CPPFLAGS=$halay_saved_cppflags LIBS=$halay_saved_libs])
AM_CONDITIONAL([HAVE_CUDART], [test "x$halay_cudart" = xyes])
AS_IF([test "x$halay_cudart" = xyes], [AC_DEFINE([HALAY_HAVE_CUDART], [1], [there is a module for CUDA devices])])
AC_SUBST([CUDART_CFLAGS])
AC_SUBST([CUDART_LIBS])
])
