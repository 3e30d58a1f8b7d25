"""The sole authority on what stands in a store and how it gets there.

`names` says which arrays there are, `metadata` writes Zarr's JSON, `chunks` reads and writes the
chunk files, `manifest` lists every file with its hashes, `outputs` refuses what may not be written,
`commit` makes a store appear whole or not at all, `stored` opens and verifies one.
"""
