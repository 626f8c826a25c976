"""Register renaming: free list, rename table with checkpoints, and the stage that uses both."""
