"""The RTL array and its fast view side by side in one simulation, compared at every clock edge."""
