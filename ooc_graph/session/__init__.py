"""Where names become objects: the only package that picks devices, exchanges and executors."""
