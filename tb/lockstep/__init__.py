"""RTL and its fast views (arrays, binary32 pipelines) in one simulation, compared at every clock edge."""
