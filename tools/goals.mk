# SPDX-License-Identifier: Apache-2.0
#
# `make all X` makes one after the other: `all` is a make of its own, which would build what X needs at the same time.
ifneq ($(and $(filter all,$(MAKECMDGOALS)),$(word 2,$(MAKECMDGOALS))),)
.NOTPARALLEL:
endif
