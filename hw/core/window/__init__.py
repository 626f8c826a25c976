"""The instruction window: reorder buffer, issue queues, registers, commit."""
