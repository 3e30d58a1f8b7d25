"""Files in object stores and on web servers: what there is, and copies of it on a local disk."""
