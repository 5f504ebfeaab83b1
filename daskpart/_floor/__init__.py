"""What all three folders may import, and what imports nothing of the house but its errors.

kernels (numba's options)   checks (of arguments)   hashing (scrambled numbers)
tables (text, HTML)         progress (a bar)        atomic (files replaced when whole)
rank_tasks (pinned tasks)
"""
