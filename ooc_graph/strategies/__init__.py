"""Where rows lie and how they are searched there; one file each."""
