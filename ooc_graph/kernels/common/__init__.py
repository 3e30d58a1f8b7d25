"""What kernels of every device share, and what a device offers."""
