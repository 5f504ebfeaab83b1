"""What all three folders may import, and what imports nothing of the house but its errors.

kernels (numba's options)   lanes (vector registers)      prefetch (rows of a matrix)
checks (of arguments)       hashing (scrambled numbers)   words (of messages)
tables (text, HTML)         progress (a bar)              rank_tasks (pinned tasks)
atomic (files replaced when whole)                        archive (named arrays on disk)
memory (kept by the process)    cores (how many)          blas (one thread a rank)
checksum   distinct   sums (by key)   mpi_variables
"""
