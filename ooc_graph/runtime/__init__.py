"""Machine, processes, devices and cluster that searches run on."""
