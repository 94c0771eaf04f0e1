dnl SPDX-License-Identifier: Apache-2.0
dnl
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
