"""What all three folders may import, and what imports nothing of the house but its errors.

kernels (numba's options)   checks (of arguments)   tables (text, HTML)   rank_tasks (pinned tasks)
"""
