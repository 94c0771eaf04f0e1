dnl SPDX-License-Identifier: Apache-2.0
dnl
dnl HALAY_FIND_CUDA: what HALAY_WITH calls: NVCC, NVCC_CODES. Of these architectures nvcc compiles those that it knows;
dnl code for one of them runs on its kin (sm_80 on 86 and 89), and newer ones compile the last one's PTX when they load
dnl it.
AC_DEFUN([HALAY_FIND_CUDA], [
    AC_ARG_VAR([NVCC_CODES],
        [architectures of the CUDA kernels, as options of nvcc (of sm_75, sm_80, sm_90, sm_100 those that it knows)])
    AC_PATH_PROGS([NVCC], [nvcc], [],
        [${halay_dir:+$halay_dir/bin$PATH_SEPARATOR}$PATH$PATH_SEPARATOR/usr/local/cuda/bin])
    AS_IF([test -n "$NVCC"], [halay_found=yes])
    AS_IF([test -n "$NVCC" && test -z "$NVCC_CODES"], [
        halay_known=`"$NVCC" --list-gpu-code 2>/dev/null`
        halay_known=`echo $halay_known` halay_newest=''
        for halay_sm in 75 80 90 100; do
            AS_CASE([" $halay_known "], [*" sm_$halay_sm "*], [
                NVCC_CODES="$NVCC_CODES -gencode arch=compute_$halay_sm,code=sm_$halay_sm" halay_newest=$halay_sm])
        done
        AS_IF([test -n "$halay_newest"],
            [NVCC_CODES="$NVCC_CODES -gencode arch=compute_$halay_newest,code=compute_$halay_newest"])])
])

dnl HALAY_CUDA_LINKS(VARIABLE, LIBRARIES, PROGRAM): VARIABLE is yes if a program links them.
AC_DEFUN([HALAY_CUDA_LINKS], [
    CPPFLAGS="$halay_saved_cppflags $CUDA_CFLAGS" LIBS="$2 $halay_saved_libs"
    AC_LINK_IFELSE([$3], [$1=yes])
    CPPFLAGS=$halay_saved_cppflags LIBS=$halay_saved_libs])

dnl HALAY_CUDA_MODULES: which modules can be built, with what lies beside NVCC or where the compiler looks: the engine's
dnl (libhalay-cuda.so) needs CUDA's runtime, the trainer's (libhalay-tft-cuda.so) cuBLASLt, too. The runtime's static
dnl library comes first: a module then needs only the driver, whatever CUDA a program brings. From PyPI libraries have
dnl their newest names only. Sets CUDA_CFLAGS, CUDART_LIBS, CUBLAS_LIBS, halay_cudart, halay_cublas and the conditionals
dnl HAVE_CUDART and HAVE_CUBLAS.
AC_DEFUN([HALAY_CUDA_MODULES], [
halay_cudart=no halay_cublas=no
AS_IF([test "x$with_cuda" = xyes], [
    halay_cuda_home=`readlink -f "$NVCC"`
    halay_cuda_home=`dirname "$halay_cuda_home"`
    halay_cuda_home=`dirname "$halay_cuda_home"`
    AS_IF([test -f "$halay_cuda_home/include/cuda_runtime_api.h"], [CUDA_CFLAGS="-isystem $halay_cuda_home/include"])
    halay_saved_cppflags=$CPPFLAGS halay_saved_libs=$LIBS
    AC_MSG_CHECKING([for CUDA's runtime and cuBLASLt])
    for halay_cuda_folder in "$halay_cuda_home/lib64" "$halay_cuda_home/lib" \
        "$halay_cuda_home/targets/x86_64-linux/lib" ""; do
        halay_cuda_search=${halay_cuda_folder:+-L$halay_cuda_folder}
        AS_IF([test -n "$halay_dir$halay_cuda_folder" && test -n "$halay_dir"],
            [halay_cuda_search="-Wl,-rpath,$halay_cuda_folder $halay_cuda_search"])
        for halay_cuda_name in -l:libcudart_static.a -lcudart -l:libcudart.so.13 -l:libcudart.so.12; do
            AS_IF([test $halay_cudart = no], [
                CUDART_LIBS="$halay_cuda_search $halay_cuda_name -ldl -lrt -lpthread"
                HALAY_CUDA_LINKS([halay_cudart], [$CUDART_LIBS], [AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>]],
                    [[int n; return cudaGetDeviceCount(&n);]])])])
        done
        for halay_cuda_name in -lcublasLt -l:libcublasLt.so.13 -l:libcublasLt.so.12; do
            AS_IF([test $halay_cudart$halay_cublas = yesno], [
                CUBLAS_LIBS="$halay_cuda_search $halay_cuda_name"
                HALAY_CUDA_LINKS([halay_cublas], [$CUBLAS_LIBS $CUDART_LIBS],
                    [AC_LANG_PROGRAM([[#include <cublasLt.h>]], [[return (int)cublasLtGetVersion();]])])])
        done
    done
    AC_MSG_RESULT([$halay_cudart, $halay_cublas])])
AM_CONDITIONAL([HAVE_CUDART], [test "x$halay_cudart" = xyes])
AM_CONDITIONAL([HAVE_CUBLAS], [test "x$halay_cublas" = xyes])
AC_DEFINE_UNQUOTED([HALAY_HAVE_CUDART], [`test "x$halay_cudart" = xyes && echo 1 || echo 0`],
    [there is a module for CUDA devices])
AC_SUBST([CUDA_CFLAGS])
AC_SUBST([CUDART_LIBS])
AC_SUBST([CUBLAS_LIBS])
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
