# SPDX-License-Identifier: Apache-2.0
"""What `import horovod` finds in a process that `python -m halay.horovod` has started, and in its children."""
import halay.horovod  # noqa: F401  takes this module's place
