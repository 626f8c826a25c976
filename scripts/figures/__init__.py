"""Every figure this project states about itself, and how it is measured.

A measuring module in this package has two members:

`KEYS` : tuple of str
    Prefixes of the keys which the module measures, for instance `("matrix.gemm256.",)`. No two modules
    share a key.
`measure(*, quick: bool) -> dict[str, object]`
    Key -> number, bool or text. With `quick`, only the keys which take seconds and come out the same
    as in a long run; `make test` compares those with figures.json.

`targets` lists what is asked of each key, `collect` runs the modules and keeps figures.json, `table`
writes the status table of README.md.
"""
