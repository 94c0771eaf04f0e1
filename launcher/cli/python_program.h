/* SPDX-License-Identifier: Apache-2.0
 *
 * Python program: one that python3 has to run, as torchrun does: a module (--module), or a file that ends in .py and
 * cannot be run as it is.
 */
#ifndef HALAY_LAUNCHER_PYTHON_PROGRAM_H
#define HALAY_LAUNCHER_PYTHON_PROGRAM_H

/* The command with python3 before it, if it is a module or, looked for in that folder (NULL: here), such a file. NULL:
 * it is run as it is, or *is_out_of_memory. Owned by the caller; the words are the command's. */
char **python_program_args(char **command, const char *folder, int is_module, int *is_out_of_memory);

#endif
