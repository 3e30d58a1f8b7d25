"""What SSSP on all devices shares."""
